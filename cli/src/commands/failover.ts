// The rows of the table that change the primary, or prepare for it.
import { type Command } from "../command.ts";
import { BY, JSON_OUTPUT, REASON, TRACKERS_TO_ASK } from "./options.ts";

export const FAILOVER: readonly Command[] = [
  {
    name: "failover candidate",
    does: "name the node to promote, and what a promotion would lose",
    page: "guide/failover-candidate.md",
    exits: {
      0: "a node is named, and every level keeps its promises (or loss is accepted)",
      1: "the command failed",
      2: "wrong arguments or configuration",
      3: "the primary answers, or a node is already promoted",
      4: "split brain",
      5: "no node can be promoted",
      6: "a level's promise is at risk or broken",
      7: "a stream is still open: the old primary may be alive",
    },
    run: {
      kind: "program",
      file: () => import.meta.resolve("@highwater/durability-tracker/cli/failover-candidate"),
      options:
        "switchover fenced accept-loss prefer-region prefer-zone exclude ignore list tracker wait json",
    },
  },
  {
    name: "failover preview",
    does: "show what the loss of the primary would cost now, as trackers know it",
    notes: [
      "Asks trackers alone, so it needs no database: for each replica that they have counted, the transactions that its promotion would lose, and the promises that it would break. The key needs the scopes read and admin. If HIGHWATER_REPLAY_HOLD_MS is set here as it is for the services, it also says by how much a failover may take longer.",
      "Before you promote a node, ask every node: highwater failover candidate.",
    ],
    page: "guide/failover-candidate.md",
    exits: { 0: "shown", 1: "no tracker can say", 2: "wrong arguments or configuration" },
    run: {
      kind: "own",
      load: () => import("../failover/preview.ts"),
      options: [
        {
          name: "list",
          value: "N",
          does: "list the first N transactions that each choice would lose, by id",
        },
        TRACKERS_TO_ASK,
        JSON_OUTPUT,
      ],
    },
  },
  {
    name: "failover authorize",
    does: "name a promoted node as the primary, for Highwater",
    args: "NODE",
    notes: [
      "Writes the operator's command on the node, and waits until the services have carried it out. It names every epoch that the node's history lacks; you have to name those that are given up. A second time it changes nothing.",
      "It reads HIGHWATER_TOPOLOGY, HIGHWATER_AUTHORITY, HIGHWATER_TRACKERS and HIGHWATER_API_KEY (or HIGHWATER_INTERNAL_SECRET) as failover candidate does.",
    ],
    page: "reference/authority.md",
    exits: {
      0: "the epoch that the command names has begun",
      1: "the command failed",
      2: "wrong arguments or configuration",
      3: "refused; nothing is written",
      4: "written, and no service carried it out in time",
    },
    run: {
      kind: "own",
      load: () => import("../failover/authorize.ts"),
      options: [
        {
          name: "fenced",
          does: "you confirm that a former primary, which does not answer, is off and stays off",
        },
        {
          name: "overrule",
          value: "EPOCH",
          isMany: true,
          does: "give this epoch up, with everything that committed in it",
        },
        BY,
        REASON,
        TRACKERS_TO_ASK,
        JSON_OUTPUT,
      ],
    },
  },
  {
    name: "switchover",
    does: "make another node the primary, as planned, without losing anything",
    args: "NODE",
    notes: [
      "Hands the present primary over, waits until NODE has everything that it has, promotes NODE, authorizes it, and lets all others follow it. It refuses where something would be lost. If it is interrupted, the same command continues; while no other node is promoted, the name of the old primary calls it off.",
      "One step needs the old primary's machine: a clean restart. --restart-command does it, with the name of the node in HIGHWATER_NODE; without it the command asks you to.",
    ],
    page: "guide/switchover.md",
    exits: {
      0: "NODE is the primary, and all others follow it; or, with --plan, that can be done",
      1: "a step failed",
      2: "wrong arguments or configuration",
      3: "refused",
      4: "not finished: interrupted, or it waited too long. The same command continues",
    },
    run: {
      kind: "own",
      load: () => import("../switchover/run.ts"),
      options: [
        { name: "plan", does: "only check, and say what would be done" },
        { name: "yes", does: "do not ask" },
        { name: "admin", value: "ROLE", does: "a superuser to log in as (default: the topology's role)" },
        { name: "restart-command", value: "COMMAND", does: "restarts a node cleanly, by the shell" },
        {
          name: "address",
          value: "HOST[:PORT]",
          does: "where other servers reach NODE (default: as in the topology)",
        },
        { name: "without", value: "NODE", isMany: true, does: "a standby that is down: leave it out" },
        { name: "accept-unlogged", does: "rows of UNLOGGED tables, which no standby has, may go" },
        {
          name: "wait",
          value: "SECONDS",
          does: "wait this long for what it waits for: a restart, a standby (default: 300)",
        },
        BY,
        TRACKERS_TO_ASK,
        JSON_OUTPUT,
      ],
    },
  },
];
