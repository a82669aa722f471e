// The command `status`: asks a gateway about an id, or a tracker about a token.
import {
  type RefusedToken,
  type TokenVerdict,
  type TransactionStateResponse,
  type VerdictsResponse,
} from "@highwater/protocol";
import { type Call } from "./command.ts";
import { badInput, EXIT_REFUSED, Refusal } from "./refusal.ts";
import { serviceAt } from "./services.ts";

const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const WAIT_S_MAX = 60;
const EXIT = { settled: 0, ended: 3, open: 4 } as const;
/** All others are open: they can still change, or the service knows nothing. */
const EXIT_CODES: Readonly<Record<string, number>> = {
  committed: EXIT.settled,
  durable: EXIT.settled,
  lost: EXIT.ended,
  broken: EXIT.ended,
  aborted: EXIT.ended,
};
const MEANINGS: Readonly<Record<string, string>> = {
  active: "it is still running",
  committed: "every client sees it; no level was asked for",
  pending: "it is committed, and not durable at this level yet",
  durable: "it survives every failure that this level covers",
  lost: "a failover discarded it; none of its changes exist, and it can never commit",
  broken: "it was durable, and a failure beyond the level's promise discarded it",
  aborted: "it has not committed, and never will",
  expired: "it is too old: its receipt is not kept any more",
  unknown: "the service does not know it",
};

export async function run(call: Call): Promise<number> {
  const { given, print } = call;
  const asked = given.only("id or token");
  if (asked === null) throw badInput("name the id or the token of a transaction");
  const waitS = given.whole("wait", { fallback: 0, min: 0, max: WAIT_S_MAX });
  const answer = ID.test(asked) ? await stateOf(asked, waitS, call) : await verdictOn(asked, waitS, call);
  print(given.flag("json") ? JSON.stringify(answer.full, null, 2) : asText(answer));
  return EXIT_CODES[answer.state] ?? EXIT.open;
}

interface Answer {
  readonly state: string;
  /** Undefined: the state is that of no level. */
  readonly level: string | undefined;
  readonly facts: Readonly<Record<string, string | undefined>>;
  /** As the service answered. */
  readonly full: unknown;
}

async function stateOf(id: string, waitS: number, { given, env }: Call): Promise<Answer> {
  const service = serviceAt(given.text("url"), ["HIGHWATER_URL"], env);
  const query = new URLSearchParams();
  const level = given.text("level");
  if (level !== null) query.set("level", level);
  if (waitS > 0) query.set("wait", String(waitS));
  const path = `/v1/transactions/${id}${query.size > 0 ? `?${query.toString()}` : ""}`;
  const response = await service.fetch(path);
  const full = (await response.json()) as TransactionStateResponse;
  const { position, token } = full;
  return { state: full.state, level: full.level, facts: { id, token, ...position }, full };
}

async function verdictOn(token: string, waitS: number, { given, env }: Call): Promise<Answer> {
  const service = serviceAt(given.text("tracker"), ["HIGHWATER_TRACKERS", "HIGHWATER_URL"], env);
  const level = given.text("level");
  const response = await service.fetch("/v1/durability/verdicts", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ tokens: [token], waitMs: waitS * 1_000, ...(level !== null && { level }) }),
  });
  const { verdicts } = (await response.json()) as VerdictsResponse;
  const [full] = verdicts;
  if (full === undefined) throw new Refusal([`${service.url} gave no verdict`], EXIT_REFUSED);
  if (isRefused(full)) throw new Refusal([`${full.error.code}: ${full.error.detail}`], EXIT_REFUSED);
  const { verdict, id, rule, position, settledAt, retriedIn } = full;
  return { state: verdict, level: full.level, facts: { id, rule, ...position, settledAt, retriedIn }, full };
}

function isRefused(verdict: TokenVerdict | RefusedToken): verdict is RefusedToken {
  return "error" in verdict;
}

function asText({ state, level, facts }: Answer): string {
  const at = level === undefined ? "" : ` at ${level}`;
  const lines = Object.entries(facts).flatMap(([name, value]) =>
    value === undefined ? [] : [`  ${name.padEnd(9)}  ${value}`],
  );
  return [`${state}${at}: ${MEANINGS[state] ?? ""}`, ...lines].join("\n");
}
