// Parses the arguments of the command `failover-candidate`. Reports every fault; does nothing else.
import { parseArgs } from "node:util";
import { HighwaterError } from "@highwater/protocol";
import { type Wishes } from "../../failover/candidate.ts";
import { PREVIEW_LIMITS } from "../../failover/wire.ts";

export interface CandidateCommand {
  readonly wishes: Wishes;
  /** Ids to name for each candidate. */
  readonly list: number;
  readonly json: boolean;
  /** Base URLs, in addition to those of the environment. */
  readonly trackers: readonly string[];
  /** How long to wait for positions to stand still. */
  readonly waitMs: number;
}

export const USAGE = `failover-candidate: names the node to promote and what a promotion would lose. It changes nothing.

  --switchover          a planned change: the primary may answer
  --fenced              you confirm that the old primary is off, although streams from it look open
  --accept-loss         name a node even if too few nodes answer, or none has the current epoch
  --prefer-region NAME  among nodes with the same position, prefer those of this region
  --prefer-zone NAME    among those, prefer the nodes of this zone
  --exclude NODE        do not promote this node; its data still counts (repeatable)
  --ignore NODE         you confirm that this node acknowledged nothing in this epoch; it need not answer (repeatable)
  --list N              name the first N transactions that each choice would lose (up to ${String(PREVIEW_LIMITS.ids)})
  --tracker URL         a tracker to ask (repeatable; adds to HIGHWATER_TRACKERS)
  --wait SECONDS        wait up to this long for positions to stop rising (default 5)
  --json                print JSON

Environment, as for the services: HIGHWATER_TOPOLOGY, HIGHWATER_AUTHORITY; HIGHWATER_TRACKERS (URLs, separated by
commas); HIGHWATER_API_KEY (or @FILE; scopes read and admin, if trackers require one) or HIGHWATER_INTERNAL_SECRET;
HIGHWATER_TLS_CA: the authority that signs the trackers' certificates, PEM or @FILE.

Exit codes:
  0  a node is named, and every level keeps its promises (or loss is accepted)
  1  the command failed
  2  wrong arguments or configuration
  3  the primary answers, or a node is already promoted
  4  split brain
  5  no node can be promoted
  6  a level's promise is at risk or broken
  7  a stream is still open: the old primary may be alive`;

const TEXT = { type: "string" } as const;
const MANY = { type: "string", multiple: true } as const;
const FLAG = { type: "boolean" } as const;

const OPTIONS = {
  switchover: FLAG,
  fenced: FLAG,
  "accept-loss": FLAG,
  json: FLAG,
  help: { ...FLAG, short: "h" },
  "prefer-region": TEXT,
  "prefer-zone": TEXT,
  exclude: MANY,
  ignore: MANY,
  list: TEXT,
  tracker: MANY,
  wait: TEXT,
} as const;

const WAIT_S = { fallback: 5, max: 300 } as const;

/** Null: help is wanted. Errors: `invalid_request` with every fault in `fields`. */
export function parseCandidateCommand(args: readonly string[]): CandidateCommand | null {
  const values = readArgs(args);
  if (values.help === true) return null;
  const faults: string[] = [];
  const whole = (name: "list" | "wait", range: { fallback: number; max: number }): number => {
    const text = values[name];
    if (text === undefined) return range.fallback;
    if (/^[0-9]{1,4}$/.test(text) && Number(text) <= range.max) return Number(text);
    faults.push(`--${name} must be a whole number up to ${String(range.max)}`);
    return range.fallback;
  };
  const trackers = values.tracker ?? [];
  for (const url of trackers)
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
      faults.push("--tracker must be an http or https URL");
  const command = {
    list: whole("list", { fallback: 0, max: PREVIEW_LIMITS.ids }),
    waitMs: 1_000 * whole("wait", WAIT_S),
    json: values.json === true,
    trackers: trackers.map((url) => url.replace(/\/+$/, "")),
    wishes: {
      region: values["prefer-region"] ?? null,
      zone: values["prefer-zone"] ?? null,
      excluded: new Set(values.exclude),
      ignored: new Set(values.ignore),
      isSwitchover: values.switchover === true,
      isFenced: values.fenced === true,
      acceptsLoss: values["accept-loss"] === true,
    },
  };
  if (faults.length > 0) throw badInput(faults);
  return command;
}

function readArgs(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: false }).values;
  } catch (cause) {
    throw badInput([cause instanceof Error ? cause.message : String(cause)]);
  }
}

export function badInput(faults: readonly string[]): HighwaterError {
  return new HighwaterError("invalid_request", { detail: faults.join("; "), fields: [...faults] });
}
