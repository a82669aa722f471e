// The command's one-line commands, independent of any terminal.

import type { Cluster, NodeStatus } from "./index.ts";

interface Command {
  usage: string;
  does: string;
  /** The allowed numbers of words after the name. */
  words: readonly number[];
  run: (cluster: Cluster, words: readonly string[]) => Promise<string | undefined>;
}

const done = async (work: Promise<unknown>): Promise<undefined> => void (await work);

const commands: Readonly<Record<string, Command>> = {
  status: {
    usage: "status",
    does: "show every database node",
    words: [0],
    run: async (cluster) => statusTable(await cluster.status()),
  },
  cut: {
    usage: "cut A B [forward|backward|reset]",
    does: "drop packets between A and B silently (reset: break connections)",
    words: [2, 3],
    run: (cluster, [a = "", b = "", how]) => {
      if (how === undefined) return done(cluster.link(a, b).cut());
      if (how === "reset") return done(cluster.link(a, b).cut({ mode: "reset" }));
      if (how !== "forward" && how !== "backward") throw new Error(`not a way to cut: ${how}`);
      return done(cluster.link(a, b).cut({ direction: how }));
    },
  },
  isolate: {
    usage: "isolate REGION",
    does: "cut the region from every other location",
    words: [1],
    run: (cluster, [region = ""]) => done(cluster.isolate(region)),
  },
  heal: {
    usage: "heal [A B]",
    does: "undo the cuts of one link, or of all links",
    words: [0, 2],
    run: (cluster, [a, b]) => done(a && b ? cluster.link(a, b).heal() : cluster.healAll()),
  },
  delay: {
    usage: "delay A B MS",
    does: "set the round trip between A and B",
    words: [3],
    run: (cluster, [a = "", b = "", ms]) => done(cluster.link(a, b).setRoundTripMs(Number(ms))),
  },
  kill: nodeCommand("kill", "the host crashes", (cluster, id) => cluster.kill(id)),
  stop: nodeCommand("stop", "clean shutdown", (cluster, id) => cluster.stop(id)),
  start: nodeCommand("start", "start a stopped node", (cluster, id) => cluster.start(id)),
  restart: nodeCommand("restart", "clean restart", (cluster, id) => cluster.restart(id)),
  crash: nodeCommand("crash", "one backend crashes, the node recovers", (cluster, id) =>
    cluster.crashBackend(id),
  ),
  pause: nodeCommand("pause", "the node hangs", (cluster, id) => cluster.pause(id)),
  resume: nodeCommand("resume", "the node runs on", (cluster, id) => cluster.resume(id)),
  promote: nodeCommand("promote", "make it the primary; the other replicas follow", (cluster, id) =>
    cluster.promote(id),
  ),
  rejoin: nodeCommand("rejoin", "copy the primary's data and follow it", (cluster, id) => cluster.rejoin(id)),
  follow: {
    usage: "follow N UPSTREAM",
    does: "make a running replica stream from another server",
    words: [2],
    run: (cluster, [id = "", upstream = ""]) => done(cluster.follow(id, upstream)),
  },
};

function nodeCommand(
  name: string,
  does: string,
  run: (cluster: Cluster, id: string) => Promise<void>,
): Command {
  return { usage: `${name} N`, does, words: [1], run: (cluster, [id = ""]) => done(run(cluster, id)) };
}

/** Returns the text to print. Throws for an unknown command, and the cluster's errors. */
export async function runCommand(cluster: Cluster, line: string): Promise<string> {
  const [name = "", ...words] = line.trim().split(/\s+/);
  if (name === "help") return helpText();
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) throw new Error(`no such command: ${name} (try help)`);
  if (!command.words.includes(words.length)) throw new Error(`usage: ${command.usage}`);
  return (await command.run(cluster, words)) ?? "ok";
}

export function helpText(): string {
  const rows = [
    ...Object.values(commands),
    { usage: "quit", does: "stop the cluster and remove its folder" },
  ];
  return rows.map(({ usage, does }) => `  ${usage.padEnd(36)}${does}`).join("\n");
}

function statusTable(nodes: readonly NodeStatus[]): string {
  const rows = nodes.map((node) => [
    node.id,
    node.state,
    node.timeline === undefined ? "" : `timeline ${node.timeline}`,
    node.insertLsn ?? node.replayLsn ?? "",
    node.state === "replica" ? `${node.streaming ? "streams from" : "waits for"} ${node.upstream}` : "",
  ]);
  const widths = rows.reduce<number[]>(
    (widest, row) => row.map((cell, index) => Math.max(cell.length, widest[index] ?? 0)),
    [],
  );
  return rows
    .map(
      (row) =>
        "  " +
        row
          .map((cell, index) => cell.padEnd(widths[index] ?? 0))
          .join("  ")
          .trimEnd(),
    )
    .join("\n");
}
