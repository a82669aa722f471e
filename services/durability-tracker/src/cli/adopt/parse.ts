// Parses the arguments of the command `adopt`. Reports every fault; does nothing else.
import { parseArgs } from "node:util";
import { type Adoption } from "@highwater/store";
import { badInput } from "../failover-candidate/parse.ts";

export interface AdoptCommand {
  readonly node: string;
  readonly trackers: readonly string[];
  readonly json: boolean;
  /** Null: only show what it gives up. */
  readonly act: Pick<Adoption, "data" | "reason" | "issuedBy"> | null;
}

export const USAGE = `adopt: continues with a database that lacks earlier epochs. Without --data it changes nothing, and shows what you would give up.

  --node NODE           the writable node to continue with
  --data intact         continue; only Highwater's tables are gone, and the applications' rows exist
  --data restored       continue; the whole database was restored, or is another one
  --reason TEXT         the reason, kept with the command (required with --data)
  --by NAME             the person, kept with the command (required with --data)
  --tracker URL         a tracker to ask (repeatable; adds to HIGHWATER_TRACKERS)
  --json                print JSON

It acts only if every tracker that it asks answers. Leave out a tracker that will not come back.

Environment, as for the services: HIGHWATER_TOPOLOGY; HIGHWATER_RETENTION_MS if it is set for them; HIGHWATER_TRACKERS (URLs,
separated by commas); HIGHWATER_API_KEY (or @FILE; scopes read and admin, if trackers require one) or HIGHWATER_INTERNAL_SECRET.

Exit codes: 0 shown, or the new epoch has begun · 1 the command failed · 2 wrong arguments or configuration · 3 refused ·
4 the command is written, but no process began the epoch in time`;

const TEXT = { type: "string" } as const;
const MANY = { type: "string", multiple: true } as const;
const FLAG = { type: "boolean" } as const;
const OPTIONS = {
  node: TEXT,
  data: TEXT,
  reason: TEXT,
  by: TEXT,
  tracker: MANY,
  json: FLAG,
  help: { ...FLAG, short: "h" },
} as const;
const MAX_TEXT = 500;

/** Null: help is wanted. Errors: `invalid_request` with every fault in `fields`. */
export function parseAdoptCommand(args: readonly string[]): AdoptCommand | null {
  const values = readArgs(args);
  if (values.help === true) return null;
  const { node = "", data, reason = "", by = "", tracker = [] } = values;
  const faults: string[] = [];
  if (node === "") faults.push("--node is required");
  if (data !== undefined && data !== "intact" && data !== "restored")
    faults.push(`--data is ${data}, and must be intact or restored`);
  for (const [name, text] of [
    ["reason", reason],
    ["by", by],
  ] as const) {
    if (data !== undefined && text.trim() === "") faults.push(`--${name} is required with --data`);
    if (text.length > MAX_TEXT)
      faults.push(`--${name} has ${String(text.length)} characters, and may have ${String(MAX_TEXT)}`);
  }
  for (const url of tracker)
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
      faults.push("--tracker must be an http or https URL");
  if (faults.length > 0) throw badInput(faults);
  return {
    node,
    trackers: tracker.map((url) => url.replace(/\/+$/, "")),
    json: values.json === true,
    act: data === "intact" || data === "restored" ? { data, reason, issuedBy: by } : null,
  };
}

function readArgs(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS, allowPositionals: false }).values;
  } catch (cause) {
    throw badInput([cause instanceof Error ? cause.message : String(cause)]);
  }
}
