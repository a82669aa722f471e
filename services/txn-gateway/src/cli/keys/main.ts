#!/usr/bin/env node
// The command `keys`: environment, standard streams and exit codes; nothing else.
// Exit codes: 0 done, 1 not done (or not known to be), 2 wrong arguments or configuration.
import { readFileSync } from "node:fs";
import { AUTHORITY_VARIABLES, makeAuthorityRule } from "@highwater/authority";
import { HighwaterError } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { operatorHere } from "@highwater/runtime/operator";
import { PostgresKeys } from "@highwater/store";
import { loadStoreConfig } from "../../config.ts";
import { makeStore } from "../../runtime.ts";
import { parseKeysCommand, USAGE } from "./parse.ts";
import { generate, runKeys } from "./run.ts";

/** The services' own settings that this command shares; the others are not its business. */
const SHARED = ["HIGHWATER_TOPOLOGY", "HIGHWATER_RETENTION_MS", "GATEWAY_CONNECT_TIMEOUT_MS"];
const CALL_TIMEOUT_MS = 5_000;

function fail(lines: readonly string[], code: number): never {
  for (const line of lines) process.stderr.write(`keys: ${line}\n`);
  process.exit(code);
}

async function main(): Promise<void> {
  const command = parseKeysCommand(process.argv.slice(2));
  if (command.kind === "help") {
    process.stdout.write(`${USAGE}\n`);
    return;
  }
  const print = (text: string): boolean => process.stdout.write(`${text}\n`);
  const note = (text: string): boolean => process.stderr.write(`${text}\n`);
  if (command.kind === "generate") {
    generate(command.json, { print, note });
    return;
  }
  const readFile = (path: string): string => readFileSync(path, "utf8");
  const env: Record<string, string | undefined> = { GATEWAY_NAME: "keys" };
  for (const variable of [...SHARED, ...AUTHORITY_VARIABLES]) env[variable] = process.env[variable];
  const loaded = loadStoreConfig(env, readFile);
  if (!loaded.ok) fail(loaded.faults, 2);
  const { config } = loaded;
  const store = makeStore(config, realClock);
  const keys = new PostgresKeys({
    nodes: config.topology.nodes,
    clock: realClock,
    helper: config.name,
    connectTimeoutMs: config.connectTimeoutMs,
    callTimeoutMs: CALL_TIMEOUT_MS,
  });
  try {
    await runKeys(command, {
      store,
      keys,
      clock: realClock,
      rule: makeAuthorityRule(config.authority, realClock),
      levels: Object.keys(config.topology.levels),
      readFile,
      print,
      note,
      readStdin: () => readFileSync(0, "utf8"),
      operator: operatorHere(),
    });
  } finally {
    keys.close();
    await store.close();
  }
}

try {
  await main();
} catch (cause) {
  if (!(cause instanceof HighwaterError)) throw cause;
  const lines = cause.details.fields ?? [`${cause.code}: ${cause.message}`];
  fail(lines, cause.code === "invalid_request" ? 2 : 1);
}
process.exit(0);
