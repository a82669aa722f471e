// The end of a run, after the system is healed: resolves every unknown outcome, and asks every
// tracker for its final verdict on every token.
import { setTimeout as pause } from "node:timers/promises";
import { type Level, type TxnId } from "@highwater/checker";
import { decodeToken } from "@highwater/protocol";
import { Highwater, HighwaterError } from "@highwater/sdk";
import { type Endpoint, type Owner } from "../parts.ts";
import { credential } from "./credential.ts";
import { type Journal, type TokenNote } from "./journal.ts";
import { type NamedTracker } from "./messages.ts";
import { type Recorded } from "./recorded.ts";
import { foundBy } from "./resolver.ts";
import { attemptOf } from "./tokens.ts";
import { askVerdicts, type TrackerVerdict } from "./verdicts.ts";

/** Limit for each id, counted from its first answer. */
const RESOLVE_LIMIT_MS = 60_000;
/**
 * An id that no service knows may belong to a request that a link still holds. It counts as never
 * run only if it stays unknown for this long after all clients have ended and all links are healed.
 */
const NEVER_AFTER_MS = 20_000;
const RESOLVE_PAUSE_MS = 500;
const RESOLVED_AT_A_TIME = 16;

const VERDICTS_LIMIT_MS = 60_000;
const VERDICTS_WAIT_MS = 5_000;
const VERDICTS_TIMEOUT_MS = 20_000;
const VERDICTS_PAUSE_MS = 200;
const BATCH = 1_000;
const ROUNDS_MAX = 5;
const ROUNDS_PAUSE_MS = 1_500;

export interface SettleOptions {
  readonly journal: Journal;
  readonly recorded: Recorded;
  readonly endpoints: readonly Endpoint[];
  readonly trackers: readonly NamedTracker[];
  readonly levels: readonly Level[];
  readonly owners: readonly Owner[];
}

type Key = string | undefined;

/** A transaction's state is available only to its owner's key. */
function keyOf({ recorded, owners }: SettleOptions, txn: TxnId): Key {
  const owner = recorded.invocations.get(txn)?.owner;
  return owners.find(({ name }) => name === owner)?.apiKey;
}

/**
 * Records a resolution for each unknown outcome, and returns the tokens that came with them. An id
 * that is open after `limitMs` is asked about once more.
 */
export async function resolveUnknowns(
  options: SettleOptions,
  limitMs = RESOLVE_LIMIT_MS,
): Promise<TokenNote[]> {
  const { journal, recorded, endpoints } = options;
  for (const txn of recorded.unanswered) {
    const nothing = { durableAt: null, position: null, shown: null, replayed: false };
    const outcome = recorded.invocations.get(txn)?.readOnly === true ? "aborted" : "unknown";
    journal.answered({ txn, outcome, ...nothing, error: "client_gone" });
  }
  const tokens: TokenNote[] = [];
  await using clients = new AsyncDisposableStack();
  const byKey = new Map<Key, Highwater>();
  for (const key of [undefined, ...options.owners.map(({ apiKey }) => apiKey)])
    byKey.set(key, clients.use(new Highwater({ endpoints, ...credential(key) })));
  let open: Open[] = recorded.unresolved.map((txn) => ({ txn, untilMs: null, unknownSinceMs: undefined }));
  // In rounds, not one id after another: all ids have to stay unknown for the same time.
  while (open.length > 0) {
    const left = [...open];
    const unsettled: Open[] = [];
    const askSome = async (): Promise<void> => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        const hw = byKey.get(keyOf(options, next.txn));
        if (hw === undefined) throw new Error(`no client can ask about ${next.txn}`);
        const settled = await ask(hw, next, { options, limitMs });
        if (settled === undefined) unsettled.push(next);
        else if (settled.token !== undefined)
          tokens.push({
            kind: "token",
            txn: next.txn,
            token: settled.token,
            attempt: attemptOf(settled.token),
          });
      }
    };
    await Promise.all(Array.from({ length: RESOLVED_AT_A_TIME }, askSome));
    open = unsettled;
    if (open.length > 0) await pause(RESOLVE_PAUSE_MS);
  }
  return tokens;
}

interface Open {
  readonly txn: TxnId;
  /** Null before its first answer. */
  untilMs: number | null;
  /** Since when every service that was asked does not know it. */
  unknownSinceMs: number | undefined;
}

/** Asks once. Undefined while no service can answer. */
async function ask(
  hw: Highwater,
  open: Open,
  { options, limitMs }: { options: SettleOptions; limitMs: number },
): Promise<{ token: string | undefined } | undefined> {
  const { journal, recorded } = options;
  const { txn } = open;
  const { level } = recorded.invocations.get(txn) ?? {};
  const state = await hw.status(txn, level === undefined ? {} : { level }).catch((error: unknown) => {
    if (error instanceof HighwaterError) return undefined;
    throw error;
  });
  const found = state && foundBy(state);
  if (found !== undefined) {
    journal.resolved({ txn, outcome: found.outcome, position: found.position });
    return { token: found.token };
  }
  if (state?.state === "expired") {
    journal.resolved({ txn, outcome: "expired", position: null });
    return { token: undefined };
  }
  if (state?.state === "unknown") open.unknownSinceMs ??= performance.now();
  else open.unknownSinceMs = undefined;
  const { unknownSinceMs } = open;
  const isNever = unknownSinceMs !== undefined && performance.now() - unknownSinceMs > NEVER_AFTER_MS;
  const isFirst = open.untilMs === null;
  open.untilMs ??= performance.now() + limitMs;
  if (!isNever && (isFirst || performance.now() < open.untilMs)) return undefined;
  const outcome = unknownSinceMs === undefined ? "unresolved" : "never";
  journal.resolved({ txn, outcome, position: null });
  return { token: undefined };
}

/**
 * Records each tracker's verdict on each token at each level. A tracker judges a token at the first
 * question, and shares a broken promise with the others a moment later, so where they differ, all
 * are asked again. Resolves with the tokens that a tracker called lost or broken and whose owners
 * have to learn it from events.
 */
export async function askFinalVerdicts(
  options: SettleOptions,
  tokens: readonly TokenNote[],
): Promise<readonly TokenNote[]> {
  const { journal, trackers, levels } = options;
  const lost = new Set<TokenNote>();
  const untilMs = performance.now() + VERDICTS_LIMIT_MS;
  let open = tokens;
  for (let round = 1; open.length > 0; round++) {
    const reports = new FinalVerdicts();
    await Promise.all(
      trackers.map(async (tracker) => {
        for (const level of levels)
          for (const [apiKey, own] of Map.groupBy(open, ({ txn }) => keyOf(options, txn)))
            for (let at = 0; at < own.length; at += BATCH) {
              const batch = own.slice(at, at + BATCH);
              await askFinally(reports, { tracker, level, untilMs, tokens: batch, apiKey });
            }
      }),
    );
    const differing = round === ROUNDS_MAX ? new Set<TokenNote>() : reports.differing;
    for (const { note, level, tracker, judged } of reports.all) {
      const { txn, attempt } = note;
      const by = differing.has(note) ? "asked" : "final";
      // Events do not name transactions without a receipt.
      const isGone = judged.verdict === "lost" || judged.verdict === "broken";
      if (isGone && decodeToken(note.token)?.kind !== "position") lost.add(note);
      journal.report({ txn, attempt, level, tracker: tracker.name, ...judged, by });
    }
    open = [...differing];
    if (open.length > 0) await pause(ROUNDS_PAUSE_MS);
  }
  return [...lost];
}

interface Spoken {
  readonly note: TokenNote;
  readonly level: Level;
  readonly tracker: NamedTracker;
  readonly judged: TrackerVerdict;
}

/** The trackers' verdicts in one round. */
class FinalVerdicts {
  readonly all: Spoken[] = [];
  readonly #first = new Map<Level, Map<TokenNote, TrackerVerdict["verdict"]>>();
  readonly differing = new Set<TokenNote>();

  add(spoken: Spoken): void {
    const { note, level, judged } = spoken;
    this.all.push(spoken);
    let first = this.#first.get(level);
    if (first === undefined)
      this.#first.set(level, (first = new Map<TokenNote, TrackerVerdict["verdict"]>()));
    const known = first.get(note);
    if (known === undefined) first.set(note, judged.verdict);
    else if (known !== judged.verdict) this.differing.add(note);
  }
}

interface FinalQuestion {
  readonly tracker: NamedTracker;
  readonly level: Level;
  readonly tokens: readonly TokenNote[];
  readonly untilMs: number;
  readonly apiKey: Key;
}

/** Asks again for pending verdicts until the time is over. */
async function askFinally(
  reports: FinalVerdicts,
  { tracker, level, tokens, untilMs, apiKey }: FinalQuestion,
): Promise<void> {
  let open = tokens;
  while (open.length > 0) {
    const isLast = performance.now() > untilMs;
    const asked = { tokens: open.map(({ token }) => token), level, waitMs: isLast ? 0 : VERDICTS_WAIT_MS };
    const answers = await askVerdicts(tracker.url, asked, { timeoutMs: VERDICTS_TIMEOUT_MS, apiKey });
    if (answers === undefined && isLast)
      throw new Error(`tracker ${tracker.name} does not report its final verdicts`);
    const waiting: TokenNote[] = [];
    for (const [at, note] of open.entries()) {
      const judged: TrackerVerdict = answers?.[at] ?? { verdict: "pending", rule: null };
      if (judged.verdict === "pending" && !isLast) waiting.push(note);
      else reports.add({ note, level, tracker, judged });
    }
    open = waiting;
    if (open.length > 0) await pause(VERDICTS_PAUSE_MS);
  }
}
