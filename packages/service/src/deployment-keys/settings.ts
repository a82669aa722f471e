// The variables that join several services into one deployment: its name, the schedule of its
// secrets, that of the secrets that protect kept contents, and the reserve of its sequences.
import { integer, name, readText } from "../settings/readers.ts";
import { Faults, type ReadFile, type Setting } from "../settings/setting.ts";

export interface DeploymentKey {
  /** Tokens and headers name their key by it. It never stands for another secret. */
  readonly kid: number;
  /** This key makes the receipt tags of ids from this time on, until the next key begins. */
  readonly validFromMs: number;
  readonly secret: string;
}

export type Schedule = readonly DeploymentKey[];

const MAX_KID = 255;
const MAX_KEYS = 16;
const SECRET_CHARS_MIN = 32;
const FIELDS = ["kid", "validFrom", "secret"];
const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,3})?Z$/;
const SHAPE = `must be a JSON array of 1 to ${String(MAX_KEYS)} entries {"kid": 1, "validFrom": "2026-01-01T00:00:00Z", "secret": "…"}, or \`@\` and the path of a file that holds it`;

/** The schedule, oldest key first. Faults name the entry and never quote a value. */
export const deploymentKeys: Setting<Schedule> = {
  variable: "HIGHWATER_DEPLOYMENT_KEYS",
  read: (value, readFile) => {
    if (value === undefined || value === "")
      throw new Faults(
        `is required: it signs tokens and tags receipts, and all gateways and trackers need the same; it ${SHAPE}`,
      );
    return Object.freeze(parseSchedule(textOf(value, readFile)));
  },
};

/** The same for the contents of kept transactions. Null: the deployment keeps none. */
const contentsKeys: Setting<Schedule | null> = {
  variable: "HIGHWATER_CONTENTS_KEYS",
  read: (value, readFile) =>
    value === undefined || value === "" ? null : Object.freeze(parseSchedule(textOf(value, readFile))),
};

/** For every service, with the same values everywhere. */
export const DEPLOYMENT_SETTINGS = {
  /** Unique among deployments that share a secret. */
  deployment: name("HIGHWATER_DEPLOYMENT"),
  deploymentKeys,
  contentsKeys,
  /** Values by which every sequence is advanced before an epoch begins. */
  sequenceReserve: integer("HIGHWATER_SEQUENCE_RESERVE", { fallback: 10_000, min: 0, max: 1_000_000_000 }),
  /** How long a new epoch's writes wait at most for lost transactions to be brought back. */
  replayHoldMs: integer("HIGHWATER_REPLAY_HOLD_MS", { fallback: 0, min: 0, max: 60_000 }),
} as const;

/** The schedule as a log may show it, without secrets. */
export function describeSchedule(schedule: Schedule): readonly Record<string, unknown>[] {
  return schedule.map(({ kid, validFromMs }) => ({ kid, validFrom: new Date(validFromMs).toISOString() }));
}

function textOf(value: string, readFile: ReadFile): string {
  return value.startsWith("@") ? readText(value.slice(1), readFile) : value;
}

function parseSchedule(json: string): Schedule {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch {
    // The parser's message would quote the text, which contains secrets.
    throw new Faults("is not JSON");
  }
  if (!Array.isArray(parsed) || parsed.length === 0 || parsed.length > MAX_KEYS) throw new Faults(SHAPE);
  const entries: unknown[] = parsed;
  const faults = entries.flatMap((entry, index) =>
    faultsOf(entry).map((fault) => `entry ${String(index)}: ${fault}`),
  );
  if (faults.length > 0) throw new Faults(...faults);
  const keys = (entries as { kid: number; validFrom: string; secret: string }[])
    .map(({ kid, validFrom, secret }) => Object.freeze({ kid, validFromMs: Date.parse(validFrom), secret }))
    .sort((a, b) => a.validFromMs - b.validFromMs);
  for (const field of ["kid", "validFromMs", "secret"] as const)
    if (new Set(keys.map((key) => key[field])).size < keys.length)
      faults.push(`has two entries with the same ${field === "validFromMs" ? "validFrom" : field}`);
  if (faults.length > 0) throw new Faults(...faults);
  return keys;
}

function faultsOf(entry: unknown): string[] {
  if (typeof entry !== "object" || entry === null || Array.isArray(entry)) return ["must be an object"];
  const { kid, validFrom, secret } = entry as Record<string, unknown>;
  const faults: string[] = [];
  if (Object.keys(entry).some((field) => !FIELDS.includes(field)))
    faults.push(`has a field besides ${FIELDS.join(", ")}`);
  if (!Number.isInteger(kid) || Number(kid) < 1 || Number(kid) > MAX_KID)
    faults.push(`kid must be a whole number from 1 to ${String(MAX_KID)}`);
  if (typeof validFrom !== "string" || !INSTANT.test(validFrom) || Number.isNaN(Date.parse(validFrom)))
    faults.push("validFrom must be a time in UTC, such as 2026-01-01T00:00:00Z");
  if (typeof secret !== "string" || secret.length < SECRET_CHARS_MIN)
    faults.push(`secret must have at least ${String(SECRET_CHARS_MIN)} characters`);
  return faults;
}
