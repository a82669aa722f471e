// Builds histories by hand: a test states what matters, and the rest is what a good run records.
import {
  type ClientReply,
  type Failure,
  type FinalState,
  type HistoryRecord,
  type Invocation,
  type Operation,
  type Resolution,
  type Scenario,
  type Shown,
  type VerdictReport,
} from "../../src/history.ts";

const LEVELS = ["disk", "region", "global"] as const;
const TRACKERS = ["near", "far"] as const;

export function scenario(overrides: Partial<Scenario> = {}): Scenario {
  return {
    ...{ type: "scenario", format: 1, seed: 1, levels: LEVELS, bank: { accounts: 2, balance: 100 } },
    ...overrides,
  };
}

export function failure(atMs: number, kept: readonly string[], overrides: Partial<Failure> = {}): Failure {
  return { type: "failure", atMs, kind: "promotion", node: "b", kept, ...overrides };
}

type Verdict = VerdictReport["verdict"];

export interface Spec {
  /** Begin and end, in milliseconds. Default: from the transaction's number. */
  readonly at?: readonly [number, number];
  readonly epoch?: string;
  readonly does?: readonly Operation[];
  readonly shows?: readonly Shown[] | null;
  readonly invocation?: Partial<Invocation>;
  readonly answer?: Partial<ClientReply> | null;
  readonly resolution?: Partial<Resolution>;
  /** The final verdict at every level, or by level, weakest first; null for none. */
  readonly final?: Verdict | readonly Verdict[] | null;
  /** Further reports. */
  readonly reported?: readonly Partial<VerdictReport>[];
  /** Its receipt at the end. Default: there if it writes and is durable at the strongest level. */
  readonly receipt?: FinalState["receipts"][number]["kind"] | null;
}

export const append = (key: string, value: number): Operation => ({ f: "append", key, value });
export const readAppend = (key: string, value: number): Operation => ({ f: "readAppend", key, value });
export const read = (key: string): Operation => ({ f: "read", key });
export const insert = (value: number): Operation => ({ f: "insert", value });
export const make = (key: string, value: number): Operation => ({ f: "make", key, value });
export const add = (key: string, value: number): Operation => ({ f: "add", key, value, how: "silent" });
export const transfer = (from: number, to: number, amount: number): Operation => {
  return { f: "transfer", from, to, amount };
};
export const sum: Operation = { f: "sum" };

const FINAL_AT_MS = 1_000_000;

/**
 * The records of the given transactions, by name. `final` overrides the database at the end, which
 * otherwise follows from the transactions.
 */
export function history(
  specs: Readonly<Record<string, Spec>>,
  final: Partial<FinalState> = {},
  more: readonly HistoryRecord[] = [],
): HistoryRecord[] {
  const records: HistoryRecord[] = more.some(({ type }) => type === "scenario") ? [] : [scenario()];
  const receipts: FinalState["receipts"][number][] = [];
  for (const [at, [txn, spec]] of Object.entries(specs).entries()) {
    records.push(...transaction(txn, at + 1, spec));
    const receipt = receiptOf(spec);
    if (receipt !== null) receipts.push({ txn, kind: receipt, epoch: spec.epoch ?? "e1" });
  }
  const state: FinalState = {
    ...{ type: "final", atMs: FINAL_AT_MS, node: "a", lists: {}, balances: [100, 100], inserted: [] },
    ...{ transfers: [], receipts, epochs: [epoch("e1", null)] },
    ...final,
  };
  return [...records, ...more, state];
}

export function epoch(
  id: string,
  previous: string | null,
  overrides: Partial<FinalState["epochs"][number]> = {},
): FinalState["epochs"][number] {
  return {
    id,
    seq: Number(id.slice(1)),
    previous,
    node: "a",
    inHistory: true,
    commanded: false,
    ...overrides,
  };
}

function receiptOf(spec: Spec): FinalState["receipts"][number]["kind"] | null {
  if (spec.receipt !== undefined) return spec.receipt;
  const last = typeof spec.final === "object" ? spec.final?.at(-1) : (spec.final ?? "durable");
  const readOnly = spec.invocation?.readOnly ?? isReadOnly(spec.does ?? []);
  return last === "durable" && !readOnly ? "commit" : null;
}

function isReadOnly(operations: readonly Operation[]): boolean {
  return operations.every(({ f }) => f === "read" || f === "sum");
}

function transaction(txn: string, number: number, spec: Spec): HistoryRecord[] {
  const { does = [], epoch = "e1", at = [10 * number, 10 * number + 5] } = spec;
  const invocation: Invocation = {
    ...{ type: "invocation", atMs: at[0], client: "c", session: null, txn, rerunOf: null, ack: "commit" },
    ...{ level: "region", readOnly: isReadOnly(does), isolation: "serializable", after: null },
    ...{ operations: does, ...spec.invocation },
  };
  const position = { epoch, offset: String(100 * number) };
  const answer: ClientReply = {
    ...{ type: "answer", atMs: at[1], txn, outcome: "committed", durableAt: null, position },
    ...{ shown: spec.shows === undefined ? does.map(() => null) : spec.shows },
    ...{ replayed: false, error: null, ...spec.answer },
  };
  const records: HistoryRecord[] = [invocation];
  if (spec.answer !== null) records.push(answer);
  if (spec.resolution !== undefined) {
    const base: Resolution = { type: "resolution", atMs: at[1] + 1, txn, outcome: "committed", position };
    records.push({ ...base, ...spec.resolution });
  }
  const { final = "durable" } = spec;
  for (const [level, name] of LEVELS.entries()) {
    const verdict = typeof final === "string" ? final : final?.[level];
    if (verdict === undefined) continue;
    for (const tracker of TRACKERS)
      records.push(reported(txn, { level: name, verdict, tracker, attempt: epoch }));
  }
  for (const report of spec.reported ?? [])
    records.push(reported(txn, { attempt: epoch, by: "event", ...report }));
  return records;
}

function reported(txn: string, overrides: Partial<VerdictReport>): VerdictReport {
  return {
    ...{ type: "report", atMs: FINAL_AT_MS - 1, txn, level: "region", verdict: "durable", by: "final" },
    ...{ tracker: "near", attempt: null, rule: null, ...overrides },
  };
}
