// The life of one transaction as moments on one time line: from its verdicts, the marks that the
// page has seen, the epochs and the recorded events. Pure.
import type {
  DurabilityEvent,
  EpochRecord,
  LiveDurableEvent,
  Position,
  TransactionEventData,
  Verdict,
} from "@highwater/protocol";
import { txnTimestampMs, parseTxnId } from "@highwater/protocol/ids";
import { begunText } from "./epoch-text.ts";
import { describeEvent, isOfTransaction } from "./event-filter.ts";
import { formatBytes, formatLsn } from "./format.ts";
import type { MarkHistory } from "./mark-history.ts";
import { explainRule } from "./rules.ts";

export interface LevelVerdict {
  readonly level: string;
  readonly verdict: Verdict;
  readonly rule: string;
  readonly position: Position | null;
  readonly settledAt?: string;
}

export interface Moment {
  /** Null: the time is not known, and the moment stands where it must have been. */
  readonly atMs: number | null;
  readonly title: string;
  readonly detail: string;
  readonly tone: "neutral" | "good" | "bad" | "waiting";
}

export interface Life {
  readonly id: string;
  /** Weakest level first; empty when only events are known. */
  readonly verdicts: readonly LevelVerdict[];
  readonly events: readonly (DurabilityEvent | LiveDurableEvent)[];
  readonly epochs: readonly EpochRecord[];
  readonly marks: Readonly<Record<string, string>>;
  readonly history: MarkHistory;
}

export function momentsOf(life: Life): Moment[] {
  const own = life.events.filter(isOfTransaction).filter(({ data }) => data.id === life.id);
  const position = life.verdicts[0]?.position ?? own.at(-1)?.data.position ?? null;
  const attempt = own.at(-1)?.data.attempt ?? position?.epoch ?? null;
  // A level that had it at its own position had it before any other epoch began.
  const [early, late] = [true, false].map((isEarly) =>
    life.verdicts
      .filter(({ verdict, rule }) => (verdict === "durable" && !rule.startsWith("R3 ")) === isEarly)
      .map((one) => levelMoment(one, life)),
  );
  return [
    ...announced(life.id),
    ...committed(position, life.epochs),
    ...(early ?? []),
    ...epochsAfter(attempt, life),
    ...(late ?? []),
    ...own.map(eventMoment),
  ];
}

function announced(id: string): Moment[] {
  const known = parseTxnId(id);
  if (known === undefined) return [];
  const detail = "The client made the id. The gateway announced it to the trackers before COMMIT.";
  return [{ atMs: txnTimestampMs(known), title: "Announced", detail, tone: "neutral" }];
}

function committed(position: Position | null, epochs: readonly EpochRecord[]): Moment[] {
  if (position === null) return [];
  const record = epochs.find(({ id }) => id === position.epoch);
  const where =
    record === undefined
      ? "an epoch that is not in the current history"
      : `epoch ${String(record.seq)} on ${record.node}`;
  const detail = `Position ${formatLsn(position.offset)} in ${where}.`;
  return [{ atMs: null, title: "Committed", detail, tone: "neutral" }];
}

function levelMoment({ level, verdict, rule, position, settledAt }: LevelVerdict, life: Life): Moment {
  const seen = position === null ? null : life.history.reached(position.epoch, level, position.offset);
  const atMs = verdict === "durable" && seen !== null && !seen.isBefore ? seen.atMs : null;
  const mark = life.marks[level];
  const isShort = verdict === "pending" && position !== null && mark !== undefined;
  const left = isShort ? BigInt(position.offset) - BigInt(mark) : 0n;
  const wait = left > 0n ? ` The mark is ${formatBytes(left)} short of it.` : "";
  const isLoss = verdict === "lost" || verdict === "broken";
  const proof =
    settledAt === undefined || !isLoss ? "" : ` The proof of the loss had reached level ${settledAt}.`;
  const unseen = verdict === "durable" && atMs === null ? " This was before the page looked." : "";
  const detail = `${explainRule(rule)}${wait}${proof}${unseen} (${rule})`;
  return { atMs, title: `${verdictTitle(verdict)} at ${level}`, detail, tone: toneOf(verdict) };
}

/** A record has the time at which its server started, which a promotion does not change. */
function epochsAfter(attempt: string | null, { epochs, events }: Life): Moment[] {
  const at = epochs.findIndex(({ id }) => id === attempt);
  if (at < 0) return [];
  return epochs.slice(at + 1).map((record) => {
    const started = events.find(
      ({ type, data }) => type === "epoch.started" && "epoch" in data && data.epoch === record.id,
    );
    return {
      atMs: started === undefined ? null : Date.parse(started.at),
      title: "Another epoch began",
      detail: `${begunText(record)}. It has the log of the epoch before it up to ${formatLsn(record.forkOffset)}.`,
      tone: "neutral" as const,
    };
  });
}

function eventMoment(
  event: (DurabilityEvent | LiveDurableEvent) & { readonly data: TransactionEventData },
): Moment {
  const verdict = event.type.slice("transaction.".length);
  const title = verdict === "delayed" ? "Reported as delayed" : `Reported as ${verdict}`;
  const tone = verdict === "durable" ? "good" : verdict === "delayed" ? "waiting" : "bad";
  return {
    atMs: Date.parse(event.at),
    title,
    detail: `${describeEvent(event)}. ${explainRule(event.data.rule)}`,
    tone,
  };
}

function verdictTitle(verdict: Verdict): string {
  return verdict.charAt(0).toUpperCase() + verdict.slice(1);
}

export function toneOf(verdict: Verdict): Moment["tone"] {
  if (verdict === "durable") return "good";
  if (verdict === "lost" || verdict === "broken") return "bad";
  return verdict === "pending" ? "waiting" : "neutral";
}
