#!/usr/bin/env node
// The command `adopt`: environment, standard streams and exit codes; nothing else.
import { readFileSync } from "node:fs";
import { HighwaterError } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { integer, internalCredential, readSettings, secret, topology, urls } from "@highwater/service";
import { POSTGRES_DEFAULTS, PostgresStore } from "@highwater/store";
import { parseAdoptCommand, USAGE } from "./parse.ts";
import { printResult } from "./print.ts";
import { runAdopt } from "./run.ts";

const EXIT_FAILED = 1;
const EXIT_BAD_INPUT = 2;
const DAY_MS = 86_400_000;

const SETTINGS = {
  topology,
  trackers: urls("HIGHWATER_TRACKERS"),
  retentionMs: integer("HIGHWATER_RETENTION_MS", { fallback: DAY_MS, min: 1_000, max: 366 * DAY_MS }),
  apiKey: secret("HIGHWATER_API_KEY"),
  internalSecret: secret("HIGHWATER_INTERNAL_SECRET"),
} as const;

function fail(lines: readonly string[], code: number): never {
  for (const line of lines) process.stderr.write(`adopt: ${line}\n`);
  process.exit(code);
}

async function main(): Promise<number> {
  const command = parseAdoptCommand(process.argv.slice(2));
  if (command === null) {
    process.stdout.write(`${USAGE}\n`);
    return 0;
  }
  const { values, faults } = readSettings(SETTINGS, process.env, (path) => readFileSync(path, "utf8"));
  if (faults.length > 0) fail(faults, EXIT_BAD_INPUT);
  const { internalSecret } = values;
  const apiKey = values.apiKey ?? (internalSecret === null ? null : internalCredential(internalSecret));
  const store = new PostgresStore({
    ...POSTGRES_DEFAULTS,
    nodes: values.topology.nodes,
    clock: realClock,
    helper: "adopt",
    poolSize: 1,
    retentionMs: values.retentionMs,
  });
  try {
    const { trackers } = values;
    const answer = await runAdopt(command, { store, clock: realClock, trackers, caller: { fetch, apiKey } });
    process.stdout.write(`${command.json ? JSON.stringify(answer, null, 2) : printResult(answer)}\n`);
    return answer.exitCode;
  } finally {
    await store.close();
  }
}

try {
  process.exitCode = await main();
} catch (cause) {
  if (cause instanceof HighwaterError && cause.code === "invalid_request")
    fail(cause.details.fields ?? [cause.message], EXIT_BAD_INPUT);
  fail([cause instanceof Error ? cause.message : String(cause)], EXIT_FAILED);
}
process.exit();
