// The table of all commands. Help, completion, docs/reference/cli.md and the program's own dispatch
// are made from it.
import { type Command } from "./command.ts";
import { FAILOVER } from "./commands/failover.ts";
import { JSON_OUTPUT } from "./commands/options.ts";
import { LOST } from "./commands/lost.ts";
import { WEBHOOKS } from "./commands/webhooks.ts";

const GUIDE = "guide/your-own-postgres.md";

const SERVICE_EXITS = {
  0: "a signal stopped it",
  1: "it could not start, or it failed",
  2: "its configuration is wrong",
};
const COMMAND_EXITS = { 0: "done", 1: "not done, or not known to be", 2: "wrong arguments or configuration" };

const YOUR_SERVERS: readonly Command[] = [
  {
    name: "init",
    does: "write a topology from the connection strings of your servers",
    args: "[NAME=]CONNECTION-STRING…",
    notes: [
      "Asks each server for its name and for the server that it follows, and changes nothing there. List all servers of one cluster: the primary and its replicas. Use the connection strings of an administrator, or of a role with pg_monitor.",
      "A replica's name is the application_name of its stream. The primary's name is its cluster_name, or the NAME before the equals sign.",
    ],
    page: GUIDE,
    exits: {
      0: "written",
      1: "the servers do not make a topology, or the file exists",
      2: "wrong arguments",
    },
    run: {
      kind: "own",
      load: () => import("./init/run.ts"),
      options: [
        { name: "out", value: "FILE", does: "the file to write (default: topology.json)" },
        { name: "force", does: "overwrite the file" },
        {
          name: "region",
          value: "NODE=REGION[/ZONE]",
          isMany: true,
          does: "where a node is; without it the command asks",
        },
        { name: "yes", does: "take the proposed regions without asking" },
        {
          name: "role",
          value: "NAME",
          does: "the services' role in the file (default: highwater_service)",
        },
        { name: "app-role", value: "NAME", does: "the applications' role, for services without API keys" },
        {
          name: "with-passwords",
          does: "write the strings as they are, with user and password; only you can read the file",
        },
        JSON_OUTPUT,
      ],
    },
  },
  {
    name: "roles",
    does: "print the SQL that makes the services' role, with the rights that it needs",
    notes: ["Run the SQL once on the primary, as an administrator. A second time it changes nothing."],
    page: GUIDE,
    exits: { 0: "printed", 2: "wrong arguments" },
    run: {
      kind: "own",
      load: () => import("./roles.ts"),
      options: [
        { name: "role", value: "NAME", does: "the services' role (default: highwater_service)" },
        { name: "app-role", value: "NAME", does: "also make the applications' role" },
        { name: "database", value: "NAME", does: "the database (default: postgres)" },
      ],
    },
  },
  {
    name: "doctor",
    does: "check the servers of a topology against the needs of promises",
    args: "[TOPOLOGY]",
    notes: [
      "Logs in to every node as the services do, and changes nothing. Without TOPOLOGY it takes HIGHWATER_TOPOLOGY. It also reads HIGHWATER_AUTHORITY, HIGHWATER_REPLAY_HOLD_MS, GATEWAY_POOL_SIZE and GATEWAY_ROLE_POOL_SIZE, so run it with the services' environment.",
      "A danger means that promises may break, or are never kept. A warning means that something else may stop working. A note is for information.",
    ],
    page: GUIDE,
    exits: {
      0: "nothing endangers promises",
      1: "a finding is a danger",
      2: "a node could not be checked, or wrong arguments",
    },
    run: {
      kind: "own",
      load: () => import("./doctor/run.ts"),
      options: [
        {
          name: "gateways",
          value: "N",
          does: "how many gateways the deployment runs (default: one in each region)",
        },
        JSON_OUTPUT,
      ],
    },
  },
  {
    name: "topology check",
    does: "check a topology file without connecting to a server",
    args: "FILE",
    exits: { 0: "services accept it", 1: "it has faults", 2: "it cannot be read, or wrong arguments" },
    run: { kind: "own", load: () => import("./topology-check.ts"), options: [JSON_OUTPUT] },
  },
];

const SERVICES: readonly Command[] = [
  {
    name: "serve gateway",
    does: "run a gateway; its settings are environment variables",
    page: "reference/gateway-config.md",
    exits: SERVICE_EXITS,
    run: {
      kind: "program",
      file: () => import.meta.resolve("@highwater/txn-gateway/main"),
      options: null,
      // Under load, data of running requests outlives the default young generation.
      flags: ["--max-semi-space-size=64"],
    },
  },
  {
    name: "serve tracker",
    does: "run a tracker; its settings are environment variables",
    page: "reference/tracker-config.md",
    exits: SERVICE_EXITS,
    run: {
      kind: "program",
      file: () => import.meta.resolve("@highwater/durability-tracker/main"),
      options: null,
      // A large ledger is mostly outside the heap.
      flags: ["--max-semi-space-size=16", "--heap-growing-percent=25"],
    },
  },
  {
    name: "dev",
    does: "run three regions on this machine, with PostgreSQL, gateways and trackers",
    exits: { 0: "stopped", 1: "it could not start", 2: "wrong arguments" },
    run: {
      kind: "program",
      file: () => import.meta.resolve("@highwater/lab-system/dev"),
      options: "port-base",
    },
  },
];

const TRANSACTIONS: readonly Command[] = [
  {
    name: "status",
    does: "show the state of a transaction",
    args: "ID|TOKEN",
    notes: [
      "The command asks a gateway about an id, and a tracker about a token. HIGHWATER_API_KEY has the key (or @FILE), if the services require one.",
    ],
    page: "reference/http.md",
    exits: {
      0: "durable at the level",
      1: "the service did not answer the question",
      2: "wrong arguments",
      3: "lost, broken or aborted",
      4: "not decided yet, or not known",
    },
    run: {
      kind: "own",
      load: () => import("./status.ts"),
      options: [
        { name: "level", value: "NAME", does: "the level (default: region, or the strongest)" },
        { name: "wait", value: "SECONDS", does: "wait up to this long for an answer, at most 60" },
        { name: "url", value: "URL", does: "an edge or a gateway (default: HIGHWATER_URL)" },
        {
          name: "tracker",
          value: "URL",
          does: "a tracker (default: the first of HIGHWATER_TRACKERS, or HIGHWATER_URL)",
        },
        JSON_OUTPUT,
      ],
    },
  },
  {
    name: "watch",
    does: "follow the events of durability until Ctrl-C",
    notes: [
      "After an interruption it continues where it was. HIGHWATER_API_KEY has the key (or @FILE), if trackers require one.",
    ],
    page: "reference/events.md",
    exits: { 0: "Ctrl-C stopped it", 1: "the tracker refused", 2: "wrong arguments" },
    run: {
      kind: "own",
      load: () => import("./watch.ts"),
      options: [
        { name: "types", value: "TYPE,…", isMany: true, does: "only events of these types" },
        { name: "after", value: "ID", does: "begin after this event; 0.0: at the oldest that is kept" },
        { name: "durable", does: "also transaction.durable" },
        { name: "level", value: "NAME", does: "the level of transaction.durable" },
        {
          name: "tracker",
          value: "URL",
          does: "a tracker (default: the first of HIGHWATER_TRACKERS, or HIGHWATER_URL)",
        },
        { name: "json", does: "print each event as a line of JSON" },
      ],
    },
  },
];

const KEYS = { kind: "program", file: () => import.meta.resolve("@highwater/txn-gateway/cli/keys") } as const;

const OPERATION: readonly Command[] = [
  {
    name: "keys",
    does: "create, list, revoke and expire API keys",
    args: "create|generate|list|revoke|expire",
    page: "reference/keys.md",
    exits: COMMAND_EXITS,
    run: {
      ...KEYS,
      options:
        "name role fingerprint create-role password-stdin password-file scopes owner expires rate burst concurrency open-transactions idle-timeout total-timeout statement-timeout lock-timeout min-level keep-bytes on-lost at in by reason after since json",
    },
  },
  {
    name: "audit",
    does: "print who changed keys, webhooks and authority, as lines of JSON",
    page: "reference/audit.md",
    exits: COMMAND_EXITS,
    run: { ...KEYS, before: ["audit"], options: "after since" },
  },
  {
    name: "adopt",
    does: "continue with a database that lacks earlier epochs",
    page: "guide/adopt.md",
    exits: {
      0: "shown, or the new epoch has begun",
      1: "the command failed",
      2: "wrong arguments or configuration",
      3: "refused",
      4: "the command is written, but no process began the epoch in time",
    },
    run: {
      kind: "program",
      file: () => import.meta.resolve("@highwater/durability-tracker/cli/adopt"),
      options: "node data reason by tracker json",
    },
  },
  {
    name: "edge",
    does: "write the files of a region's Envoy from its source",
    args: "SOURCE",
    page: "guide/edge.md",
    exits: { 0: "written, or nothing to write", 1: "with --check: files differ", 2: "the source is wrong" },
    run: { kind: "program", file: () => import.meta.resolve("@highwater/edge/cli"), options: "out check" },
  },
  {
    name: "dashboards",
    does: "upload the dashboards to a running Grafana; its settings are environment variables",
    exits: { 0: "uploaded", 1: "Grafana refused or did not answer", 2: "the environment is wrong" },
    run: { kind: "program", file: () => import.meta.resolve("@highwater/dashboards/put"), options: "" },
  },
];

const COMPLETION: Command = {
  name: "completion",
  does: "print the completion of a shell",
  args: "bash|zsh",
  notes: [
    "For bash, put `source <(highwater completion bash)` into ~/.bashrc. For zsh, put `source <(highwater completion zsh)` into ~/.zshrc, after compinit.",
  ],
  exits: { 0: "printed", 2: "wrong arguments" },
  run: { kind: "own", load: () => import("./completion.ts"), options: [] },
};

/** In the order of the help. */
export const GROUPS: Readonly<Record<string, readonly Command[]>> = {
  "Your servers": YOUR_SERVERS,
  Services: SERVICES,
  Transactions: TRANSACTIONS,
  "Change of the primary": FAILOVER,
  Operation: OPERATION,
  "What was lost": LOST,
  Webhooks: WEBHOOKS,
  "This command": [COMPLETION],
};

export const COMMANDS: readonly Command[] = Object.values(GROUPS).flat();
