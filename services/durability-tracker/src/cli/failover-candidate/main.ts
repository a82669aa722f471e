#!/usr/bin/env node
// The command `failover-candidate`: environment, standard streams and exit codes; nothing else.
import { readFileSync } from "node:fs";
import { readAuthority } from "@highwater/authority";
import { HighwaterError } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import {
  internalCredential,
  readSettings,
  secret,
  tlsAuthority,
  topology,
  trustAuthority,
  urls,
} from "@highwater/service";
import { POSTGRES_DEFAULTS, PostgresStore } from "@highwater/store";
import { parseCandidateCommand, USAGE } from "./parse.ts";
import { printReport } from "./print.ts";
import { findCandidate } from "./run.ts";

const EXIT_FAILED = 1;
const EXIT_BAD_INPUT = 2;

const SETTINGS = {
  topology,
  trackers: urls("HIGHWATER_TRACKERS"),
  apiKey: secret("HIGHWATER_API_KEY"),
  internalSecret: secret("HIGHWATER_INTERNAL_SECRET"),
  tlsAuthority,
} as const;

function fail(lines: readonly string[], code: number): never {
  for (const line of lines) process.stderr.write(`failover-candidate: ${line}\n`);
  process.exit(code);
}

/**
 * Beside the services, the secret that they share serves as a key, so that none has to be created
 * before.
 */
function credentialOf(internalSecret: string | null): string | null {
  return internalSecret === null ? null : internalCredential(internalSecret);
}

async function main(): Promise<number> {
  const command = parseCandidateCommand(process.argv.slice(2));
  if (command === null) {
    process.stdout.write(`${USAGE}\n`);
    return 0;
  }
  const { values, faults } = readSettings(SETTINGS, process.env, (path) => readFileSync(path, "utf8"));
  const authority = readAuthority(process.env);
  const wrong = [...faults, ...authority.faults];
  if (wrong.length > 0) fail(wrong, EXIT_BAD_INPUT);
  trustAuthority(values.tlsAuthority);
  const store = new PostgresStore({
    ...POSTGRES_DEFAULTS,
    nodes: values.topology.nodes,
    clock: realClock,
    helper: "failover-candidate",
    poolSize: 1,
  });
  try {
    const report = await findCandidate(command, {
      store,
      clock: realClock,
      levels: values.topology.levels,
      trackers: values.trackers,
      isLease: authority.settings.kind === "lease",
      caller: { fetch, apiKey: values.apiKey ?? credentialOf(values.internalSecret) },
    });
    process.stdout.write(`${command.json ? JSON.stringify(report, null, 2) : printReport(report)}\n`);
    return report.exitCode;
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
