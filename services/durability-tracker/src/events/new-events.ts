// The contents of events: their types, their data, and the keys by which trackers recognise the
// same event.
import { createHash } from "node:crypto";
import {
  type BrokenPromiseData,
  type EpochEventData,
  type EpochId,
  type EpochRecord,
  parseOffset,
  type StallEvent,
  type TransactionEventData,
  type TxnId,
  type UnlistedData,
  withoutRedo,
  withRedo,
} from "@highwater/protocol";
import { type NewEvent } from "@highwater/store";
import { type BecameDurable, entryKey, type LogPosition, type Published } from "../core/index.ts";

const BACK = "R8 reappeared";

/** A verdict that is no good news. A transaction with a broken promise is not merely lost. */
export function lostEvent(published: Published): NewEvent {
  const isBroken = Object.values(published.verdicts).includes("broken");
  return transactionEvent(isBroken ? "transaction.broken" : "transaction.lost", published);
}

export function delayedEvent(published: Published): NewEvent {
  return transactionEvent("transaction.delayed", published);
}

function transactionEvent(
  type: "transaction.lost" | "transaction.broken" | "transaction.delayed",
  published: Published,
): NewEvent {
  const { id, attempt, kind, owner, verdicts, rule } = published;
  const key = `${keyName(type, rule, verdicts)}/${entryKey({ id, owner }, attempt)}`;
  const isListed = kind === "write" && type !== "transaction.delayed";
  const details = isListed ? { details: `/v1/lost/${id}` } : {};
  return { key, type, owner, data: { ...transactionData(published), ...details } };
}

export function transactionData(published: Published): TransactionEventData {
  const { id, attempt, kind, origin, verdicts, rule, settledAt, retriedIn, metadata } = published;
  return {
    id,
    attempt,
    ...positionOf(origin),
    ...(kind === "read" ? { readOnly: true } : {}),
    verdicts: { ...verdicts },
    rule,
    ...(settledAt === "" ? {} : { settledAt }),
    ...(retriedIn === null ? {} : { retriedIn }),
    ...withoutRedo(metadata),
  };
}

function positionOf(origin: LogPosition | null): Pick<TransactionEventData, "position"> {
  return origin === null ? {} : { position: { epoch: origin.epoch, offset: origin.offset.toString() } };
}

/** Broken at one level first, and then at more, or back: each is published once. */
function keyName(type: string, rule: string, verdicts: Published["verdicts"]): string {
  if (rule === BACK) return "back";
  const broken = Object.keys(verdicts).filter((level) => verdicts[level] === "broken");
  const name = type.slice("transaction.".length);
  // A list of names that may hold any character, so that two lists never read alike.
  return broken.length === 0 ? name : `${name}/${levelInKey(JSON.stringify(broken.sort()))}`;
}

/** What somebody has recorded as broken, as the core knows it. */
export function peerVerdictOf({ owner, data }: NewEvent): Published {
  const { id, attempt, position, readOnly, verdicts, rule, settledAt, retriedIn, metadata, redo } =
    data as TransactionEventData;
  const offset = parseOffset(position?.offset ?? "");
  return {
    id: id as TxnId,
    attempt: attempt as EpochId,
    kind: readOnly === true ? "read" : "write",
    origin:
      position === undefined || offset === undefined ? null : { epoch: position.epoch as EpochId, offset },
    owner: owner ?? 0n,
    verdicts,
    rule,
    settledAt: settledAt ?? "",
    retriedIn: (retriedIn ?? null) as EpochId | null,
    metadata: redo === undefined ? (metadata ?? null) : withRedo(metadata),
  };
}

export function durableData(
  level: string,
  { id, attempt, origin, metadata }: BecameDurable,
): Readonly<TransactionEventData> {
  return {
    id,
    attempt,
    ...positionOf(origin),
    verdicts: { [level]: "durable" },
    rule: "R1 mark",
    ...withoutRedo(metadata),
  };
}

export function durableEvent(level: string, item: BecameDurable): NewEvent {
  const { id, attempt, owner } = item;
  const key = `durable/${entryKey({ id, owner }, attempt)}/${levelInKey(level)}`;
  return { key, type: "transaction.durable", owner, data: durableData(level, item) };
}

export function stallEvent(stall: StallEvent, isStalled: boolean): NewEvent {
  const { level, epoch, offset } = stall;
  const name = isStalled ? "stalled" : "recovered";
  const key = `${name}/${epoch}/${levelInKey(level)}/${offset}`;
  return { key, type: `durability.${name}`, owner: null, data: { ...stall } };
}

/** The knowledge of the tracker that reports an epoch, and what it does not know. */
export interface Completeness {
  readonly complete: boolean;
  readonly unlisted: number;
}

export function epochEvent(record: EpochRecord, completeness: Completeness): NewEvent {
  const { id: epoch, seq, previous, node, cause, forkOffset } = record;
  const data: EpochEventData = { epoch, seq, previous, node, cause, forkOffset, ...completeness };
  return { key: `epoch/${epoch}`, type: "epoch.started", owner: null, data };
}

export function brokenPromiseEvent(promise: BrokenPromiseData): NewEvent {
  // Trackers may know different parts of the range: each that differs is published.
  const key = `promise/${promise.epoch}/${levelInKey(promise.level)}/${promise.from}-${promise.to}`;
  return { key, type: "promise.broken", owner: null, data: { ...promise } };
}

export function unlistedEvent(data: UnlistedData, owner: bigint): NewEvent {
  const { epoch, currentEpoch, count, from, to, ids } = data;
  // Ledgers may know different parts: what each says is published, so that none is an undercount of
  // another.
  const said = digestOf([count, from, to, ids.first, ids.last]);
  const key = `unlisted/${epoch}/${currentEpoch}/${String(owner)}/${said}`;
  return { key, type: "transactions.unlisted", owner, data: { ...data } };
}

const PLAIN_LEVEL = /^[\w.-]{1,63}$/;

/** A level may have any name; a key is short and plain. */
function levelInKey(level: string): string {
  if (PLAIN_LEVEL.test(level)) return level;
  return `~${digestOf(level)}`;
}

function digestOf(said: unknown): string {
  const text = typeof said === "string" ? said : JSON.stringify(said);
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}
