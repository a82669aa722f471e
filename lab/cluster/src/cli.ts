#!/usr/bin/env node
// The command `highwater-lab-cluster`: runs a cluster until Ctrl-C, and takes commands from
// standard input.

import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { exitCodeOf } from "@highwater/lab-tools/process";
import { helpText, runCommand } from "./commands.ts";
import { type Cluster, type ClusterOptions, DevClusterError, startCluster } from "./index.ts";

const usage = `Usage: highwater-lab-cluster [--port-base N] [--settings name=value]... [--keep-dir] [--json]

Starts PostgreSQL in us-east (primary), us-west and eu-west on this machine, with real delays between them.
  --port-base N          fixed ports: N, N+1, N+2
  --settings name=value  an extra postgresql.conf setting for every node
  --keep-dir             keep the folder at the end
  --json                 print one line of JSON about the cluster instead of text

Commands on standard input:
${helpText()}`;

const regions = ["us-east", "us-west", "eu-west"];

function readOptions(): { options: ClusterOptions; json: boolean; help: boolean } {
  const { values } = parseArgs({
    options: {
      "port-base": { type: "string" },
      settings: { type: "string", multiple: true },
      "keep-dir": { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const settings = (values.settings ?? []).map((setting): [string, string] => {
    const at = setting.indexOf("=");
    if (at < 1) throw new DevClusterError("BAD_OPTION", `--settings ${setting} is not name=value`);
    return [setting.slice(0, at), setting.slice(at + 1)];
  });
  const base = values["port-base"];
  return {
    options: {
      nodes: regions.map((id, index) => ({
        id,
        region: id,
        ...(base !== undefined && { port: Number(base) + index }),
      })),
      settings: Object.fromEntries(settings),
      keepDir: values["keep-dir"],
    },
    json: values.json,
    help: values.help,
  };
}

async function describe(cluster: Cluster, json: boolean): Promise<string> {
  const nodes = await Promise.all(
    cluster.nodes.map(async (node) => ({ ...node, url: await cluster.connectionString(node.id) })),
  );
  if (json) return JSON.stringify({ dir: cluster.dir, nodes });
  const lines = nodes.map((node) => `  ${node.id.padEnd(10)}${node.url}`);
  return [...lines, `  folder    ${cluster.dir}`, "Type help for commands; Ctrl-C stops everything."].join(
    "\n",
  );
}

async function main(): Promise<void> {
  const { options, json, help } = readOptions();
  if (help) return console.log(usage);
  let stop: () => void = () => undefined;
  const stopped = new Promise<void>((resolve) => (stop = resolve));
  // Until the cluster exists, and at a second Ctrl-C, the program just exits, and the supervisor
  // cleans up.
  const onSignal = (signal: NodeJS.Signals): void => process.exit(exitCodeOf(signal));
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(name, onSignal);
  const startMs = performance.now();
  const cluster = await startCluster(options);
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.off(name, onSignal);
    process.once(name, stop);
  }
  if (!json) console.log(`Ready in ${((performance.now() - startMs) / 1000).toFixed(1)} s.`);
  console.log(await describe(cluster, json));
  // A running cluster does not keep the program alive, and standard input may be at its end
  // already.
  const keepAlive = setInterval(() => undefined, 60_000);
  const input = createInterface({
    input: process.stdin,
    prompt: "> ",
    ...(process.stdin.isTTY && { output: process.stdout }),
  });
  if (process.stdin.isTTY) input.prompt();
  let work = Promise.resolve();
  input.on("line", (line) => {
    if (/^\s*(quit|exit)\s*$/.test(line)) return stop();
    work = work
      .then(() => obey(cluster, line))
      .then(() => (process.stdin.isTTY ? input.prompt() : undefined));
  });
  // On a terminal, readline receives Ctrl-C as a key.
  input.on("SIGINT", stop);
  await stopped;
  clearInterval(keepAlive);
  input.close();
  process.stdin.destroy();
  if (!json) console.log("Stopping.");
  await cluster.close();
}

async function obey(cluster: Cluster, line: string): Promise<void> {
  if (line.trim() === "") return;
  try {
    console.log(await runCommand(cluster, line));
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
  }
}

try {
  await main();
} catch (error) {
  const code = error instanceof DevClusterError ? `${error.code}: ` : "";
  console.error(code + (error instanceof Error ? error.message : String(error)));
  process.exitCode = 1;
}
