// `make versions PG=16`: runs the store's conformance suite, named executions, the wire, failover
// rounds and a slice of chaos on another version of PostgreSQL, one after another.
// Options: --major 15, 16, 17 or 18; --only PART,… (conformance, executions, wire, rounds, chaos).
// Exit codes: 0 when every part is good, 1 when one is not, 2 when there is no such PostgreSQL. The
// last line is JSON, with a line for each part.
import { spawn } from "node:child_process";
import { globSync } from "node:fs";
import { join } from "node:path";
import { startCluster } from "@highwater/lab-cluster";
import { exitCodeOf, readOptions } from "@highwater/lab-tools/process";
import { type Installation, installationOf } from "./installations.ts";
import { chosenParts, type Part } from "./parts.ts";

const ROOT = join(import.meta.dirname, "../..");
const WRONG_OPTIONS = 2;

const { values } = readOptions(import.meta.filename, {
  options: { major: { type: "string", default: "" }, only: { type: "string", default: "" } },
});

/** Starts one server, which shows that the user of servers can run it. */
async function versionOf({ binDir }: Installation): Promise<string> {
  const id = "one";
  await using cluster = await startCluster({ nodes: [{ id, region: id }], pgBinDir: binDir });
  const sql = "SELECT split_part(current_setting('server_version'), ' ', 1) AS version";
  return String((await cluster.query(id, sql))[0]?.["version"]);
}

async function run({ command }: Part, binDir: string): Promise<{ code: number | null; output: string }> {
  const [program = "", ...args] = command;
  const child = spawn(process.execPath, [program, ...args.flatMap(filesOf)], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, HIGHWATER_PG_BIN: binDir },
  });
  const forward = (signal: NodeJS.Signals): void => {
    child.kill(signal);
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const name of signals) process.on(name, forward);
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    process.stdout.write(text);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      resolve(signal === null ? code : exitCodeOf(signal));
    });
  });
  for (const name of signals) process.off(name, forward);
  return { code, output };
}

/** An argument that is a pattern stands for files. */
function filesOf(argument: string): string[] {
  return argument.includes("*") || argument.includes("{")
    ? globSync(argument, { cwd: ROOT }).sort()
    : [argument];
}

async function main(): Promise<number> {
  const parts = chosenParts(values.only);
  const installation = installationOf(values.major);
  const version = await versionOf(installation);
  if (version.split(".")[0] !== values.major)
    throw new Error(`${installation.binDir} has PostgreSQL ${version}, and not ${values.major}`);
  console.log(`PostgreSQL ${version} from ${installation.from}: HIGHWATER_PG_BIN=${installation.binDir}`);
  const report: Record<string, string> = { postgres: version, from: installation.from };
  const skipped: string[] = [];
  let isGood = true;
  for (const part of parts) {
    console.log(`\n${part.name}: node ${part.command.join(" ")}`);
    const { code, output } = await run(part, installation.binDir);
    if (code !== null && [exitCodeOf("SIGINT"), exitCodeOf("SIGTERM")].includes(code)) return code;
    const result = part.resultOf(code, output);
    report[part.name] = result.says;
    skipped.push(...result.skipped);
    isGood &&= result.isGood;
    console.log(`${part.name} on PostgreSQL ${version}: ${result.says}`);
  }
  for (const each of skipped) console.log(`skipped on PostgreSQL ${version}: ${each}`);
  if (skipped.length > 0) report["skipped"] = skipped.join("; ");
  console.log(JSON.stringify(report));
  return isGood ? 0 : 1;
}

process.exitCode = await main().catch((cause: unknown) => {
  console.error(cause instanceof Error ? cause.message : cause);
  return WRONG_OPTIONS;
});
