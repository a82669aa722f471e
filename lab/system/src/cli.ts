#!/usr/bin/env node
// The command `highwater dev` (`make up`): runs the three-region system until Ctrl-C.
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import type { NodeStatus } from "@highwater/lab-cluster";
import { whyNoEnvoy } from "@highwater/lab-tools/envoy";
import { exitCodeOf } from "@highwater/lab-tools/process";
import { makeUuidV7 } from "@highwater/protocol";
import { System, type SystemOptions } from "./index.ts";

const WRONG_ARGUMENTS = 2;

const REGIONS = ["us-east", "us-west", "eu-west"];
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

const COMMANDS: Readonly<
  Record<string, { does: string; run: (system: System, name: string) => Promise<unknown> }>
> = {
  status: { does: "show every database node", run: showStatus },
  "isolate REGION": {
    does: "cut the region off from all others",
    run: (system, name) => system.cluster.isolate(name),
  },
  heal: { does: "undo every cut", run: (system) => system.cluster.healAll() },
  "kill REGION": {
    does: "kill the region's database, gateway, tracker and edge",
    run: (system, name) => system.killRegion(name),
  },
  "promote NODE": {
    does: "make the node the primary; the other replicas follow",
    run: (system, name) => system.cluster.promote(name),
  },
  "revive REGION": {
    does: "bring a lost region back, as a replica (heal first)",
    run: (system, name) => system.reviveRegion(name),
  },
};

const commandList = [
  ...Object.entries(COMMANDS).map(([usage, { does }]) => ({ usage, does })),
  {
    usage: "quit",
    does: "stop everything",
  },
]
  .map(({ usage, does }) => `  ${usage.padEnd(16)}${does}`)
  .join("\n");

const usage = `Usage: highwater dev [--port-base N]

Starts three regions on this machine, with real delays between them: us-east (with the primary), us-west and eu-west.
Each has a PostgreSQL server, a gateway, a tracker and, if Envoy is installed, an edge.
  --port-base N   use fixed ports. us-east gets N to N+7: gateway, tracker, database, edge, PostgreSQL wire, read port,
                  and these two through the edge. us-west gets N+10 to N+17, eu-west N+20 to N+27

Commands on standard input:
${commandList}`;

function readOptions(): SystemOptions | "help" {
  const { values } = parseArgs({
    options: { "port-base": { type: "string" }, help: { type: "boolean", short: "h", default: false } },
  });
  if (values.help) return "help";
  if (values["port-base"] === undefined) return {};
  const portBase = Number(values["port-base"]);
  if (!Number.isInteger(portBase) || portBase < 1 || portBase > 65_535 - 10 * REGIONS.length)
    throw new Error(
      `--port-base ${values["port-base"]} must be a whole number from 1 to ${String(65_535 - 10 * REGIONS.length)}`,
    );
  const nodes = REGIONS.map((region, at) => ({ id: region, region, port: portBase + 10 * at + 2 }));
  return { portBase, cluster: { nodes } };
}

async function describe(system: System): Promise<string> {
  const lines: string[] = [];
  for (const region of system.regions) {
    const edge = system.edge(region);
    lines.push(
      region,
      ...(edge === undefined
        ? []
        : [
            `  edge      ${edge.url}  (routes to a gateway and a tracker, in the nearest region that has one)`,
            `    psql    ${system.edgePgUrl(region)}`,
            `    reads   ${system.edgePgReadUrl(region)}`,
          ]),
      `  gateway   ${system.gateway(region).url}`,
      `  tracker   ${system.tracker(region).url}`,
      `  console   ${system.tracker(region).url}/console`,
      `  psql      ${system.pgUrl(region)}`,
      `  reads     ${system.pgReadUrl(region)}`,
    );
    for (const { id } of system.cluster.nodes.filter((node) => node.region === region)) {
      lines.push(`  database  ${await system.cluster.connectionString(id)}`);
    }
  }
  const [home = ""] = system.regions;
  const why = whyNoEnvoy();
  const postgres = why === false ? system.edgePgUrl(home) : system.pgUrl(home);
  const id = makeUuidV7(Date.now(), crypto.getRandomValues(new Uint8Array(10)));
  const body = JSON.stringify({
    id,
    statements: [{ sql: "CREATE TABLE hello (world text)" }],
    ack: "durable",
  });
  return [
    ...lines,
    ...(why === false ? [] : [`The system runs without an edge: ${why}.`]),
    "",
    "Run a transaction. It has an id, so it runs once even if you send it twice:",
    `  curl -s ${system.gateway(home).url}/v1/transactions -H 'content-type: application/json' -d '${body}'`,
    "Connect with any PostgreSQL client. COMMIT returns when the transaction is durable:",
    `  psql ${postgres}`,
    "Watch the marks rise:",
    `  curl -sN ${system.tracker(home).url}/v1/durability/stream`,
    "",
    `Logs and data are in ${system.cluster.dir}. Type help for commands; Ctrl-C stops everything.`,
  ].join("\n");
}

async function showStatus(system: System): Promise<void> {
  const line = (node: NodeStatus): string =>
    [
      node.id.padEnd(10),
      node.state.padEnd(12),
      node.timeline === undefined
        ? ""
        : `timeline ${String(node.timeline)} at ${node.insertLsn ?? node.replayLsn ?? "?"}`,
      node.state === "replica"
        ? `${node.streaming ? "streams from" : "waits for"} ${node.upstream ?? "an upstream server"}`
        : "",
    ]
      .join("  ")
      .trimEnd();
  console.log((await system.cluster.status()).map(line).join("\n"));
}

async function obey(system: System, line: string): Promise<void> {
  const [word = "", name = "", ...rest] = line.trim().split(/\s+/);
  if (word === "") return;
  if (word === "help") return console.log(commandList);
  const found = Object.entries(COMMANDS).find(([text]) => text.split(" ")[0] === word);
  if (found === undefined) return console.error(`no such command: ${word} (try help)`);
  const [text, command] = found;
  if (rest.length > 0 || text.includes(" ") !== (name !== "")) return console.error(`usage: ${text}`);
  try {
    await command.run(system, name);
    if (word !== "status") console.log("ok");
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
  }
}

async function main(): Promise<void> {
  let options: SystemOptions | "help";
  try {
    options = readOptions();
  } catch (error) {
    const says = error instanceof Error ? error.message : String(error);
    console.error(`highwater dev: ${says} (highwater dev --help lists the options)`);
    process.exitCode = WRONG_ARGUMENTS;
    return;
  }
  if (options === "help") return console.log(usage);
  // Until the system exists, and at a second Ctrl-C, the program just exits; its children notice
  // that and end, too.
  const die = (signal: NodeJS.Signals): void => process.exit(exitCodeOf(signal));
  for (const name of SIGNALS) process.on(name, die);
  const startMs = performance.now();
  const system = await System.start(options);
  if (whyNoEnvoy() === false) for (const region of system.regions) await system.startEdge(region);
  let stop: () => void = () => undefined;
  const stopped = new Promise<void>((resolve) => (stop = resolve));
  for (const name of SIGNALS) {
    process.off(name, die);
    process.once(name, () => {
      for (const each of SIGNALS) process.on(each, die);
      stop();
    });
  }
  console.log(`Ready in ${((performance.now() - startMs) / 1_000).toFixed(1)} s.\n`);
  console.log(await describe(system));
  // Standard input may be at its end already, and a running system does not keep the program alive.
  const keepAlive = setInterval(() => undefined, 60_000);
  const input = createInterface({ input: process.stdin, prompt: "> " });
  const prompt = (): void => {
    if (process.stdin.isTTY) input.prompt();
  };
  prompt();
  let work = Promise.resolve();
  input.on("line", (line) => {
    if (/^\s*(quit|exit)\s*$/.test(line)) return stop();
    work = work.then(() => obey(system, line)).then(prompt);
  });
  // On a terminal, readline receives Ctrl-C as a key.
  input.on("SIGINT", () => process.kill(process.pid, "SIGINT"));
  await stopped;
  clearInterval(keepAlive);
  input.close();
  process.stdin.destroy();
  console.log("Stopping.");
  await system.close();
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
