// Damages good histories in ways that the checker has to notice: each changes a record so that
// nothing else can explain it. Null where a history has no fitting record.
import assert from "node:assert/strict";
import type { ClientReply, FinalState, HistoryRecord, Invocation, VerdictReport } from "../../src/history.ts";
import { type Random } from "./random.ts";

type Mutation = (records: readonly HistoryRecord[], random: Random) => HistoryRecord[] | null;

const isAnswer = (record: HistoryRecord): record is ClientReply => record.type === "answer";
const isFinalReport = (record: HistoryRecord): record is VerdictReport =>
  record.type === "report" && record.by === "final";

function finalOf(records: readonly HistoryRecord[]): FinalState {
  const final = records.find((record) => record.type === "final");
  assert.ok(final !== undefined);
  return final;
}

/** Replaces one of the records that fit. */
function change<T extends HistoryRecord>(
  records: readonly HistoryRecord[],
  random: Random,
  isFit: (record: HistoryRecord) => record is T,
  make: (record: T) => HistoryRecord | null,
): HistoryRecord[] | null {
  const fit = records.flatMap((record, at) => {
    const made = isFit(record) ? make(record) : null;
    return made === null ? [] : [{ at, made }];
  });
  if (fit.length === 0) return null;
  const { at, made } = random.pick(fit);
  return records.map((record, other) => (other === at ? made : record));
}

function changeFinal(
  records: readonly HistoryRecord[],
  make: (final: FinalState) => Partial<FinalState> | null,
): HistoryRecord[] | null {
  const final = finalOf(records);
  const made = make(final);
  return made === null ? null : records.map((record) => (record === final ? { ...final, ...made } : record));
}

/** Changes a list of a serializable read. */
function changeShown(
  records: readonly HistoryRecord[],
  random: Random,
  make: (list: readonly number[], invocation: Invocation, at: number) => readonly number[] | null,
): HistoryRecord[] | null {
  const invocations = new Map<string, Invocation>();
  for (const record of records) if (record.type === "invocation") invocations.set(record.txn, record);
  return change(records, random, isAnswer, (answer) => {
    const invocation = invocations.get(answer.txn);
    if (answer.shown === null || invocation?.isolation !== "serializable") return null;
    for (const [at, shown] of answer.shown.entries()) {
      const made = Array.isArray(shown) ? make(shown as readonly number[], invocation, at) : null;
      if (made !== null) {
        return { ...answer, shown: answer.shown.map((other, index) => (index === at ? made : other)) };
      }
    }
    return null;
  });
}

const swap = (list: readonly number[], at: number): number[] => {
  const [one = 0, other = 0] = [list[at], list[at + 1]];
  return list.map((value, index) => (index === at ? other : index === at + 1 ? one : value));
};

const someList = (final: FinalState, random: Random, shortest: number): string | null => {
  const keys = Object.keys(final.lists).filter((key) => (final.lists[key]?.length ?? 0) >= shortest);
  return keys.length === 0 ? null : random.pick(keys);
};

export const MUTATIONS: Readonly<Record<string, Mutation>> = {
  "a value is missing in the end": (records, random) =>
    changeFinal(records, (final) => {
      const key = someList(final, random, 1);
      const list = key === null ? [] : (final.lists[key] ?? []);
      const lost = random.below(list.length);
      return key === null ? null : { lists: { ...final.lists, [key]: list.filter((_, at) => at !== lost) } };
    }),
  "a value is twice in the end": (records, random) =>
    changeFinal(records, (final) => {
      const key = someList(final, random, 1);
      const list = key === null ? [] : (final.lists[key] ?? []);
      return key === null ? null : { lists: { ...final.lists, [key]: [...list, ...list.slice(0, 1)] } };
    }),
  "a receipt is missing": (records, random) =>
    changeFinal(records, ({ receipts, inserted }) => {
      const writes = receipts.filter(({ txn }) =>
        records.some(
          (it) => it.type === "invocation" && it.txn === txn && it.operations.some(({ f }) => f !== "read"),
        ),
      );
      assert.ok(inserted !== undefined);
      return writes.length === 0
        ? null
        : { receipts: receipts.filter((it) => it !== random.pick(writes)).slice(1) };
    }),
  "money is missing": (records) =>
    changeFinal(records, ({ balances }) => ({
      balances: balances.map((balance, at) => (at === 0 ? balance - 1 : balance)),
    })),
  "a transfer is there twice": (records) =>
    changeFinal(records, ({ transfers }) =>
      transfers.length === 0 ? null : { transfers: [...transfers, ...transfers.slice(0, 1)] },
    ),
  "a list was read in another order": (records, random) =>
    changeShown(records, random, (list, { operations }, at) => {
      // Values of the final list have a known order.
      const operation = operations[at];
      const final =
        operation !== undefined && "key" in operation ? finalOf(records).lists[operation.key] : undefined;
      return list.length < 2 || final?.[1] !== list[1] ? null : swap(list, 0);
    }),
  "a list was read with a hole": (records, random) =>
    changeShown(records, random, (list) => (list.length < 2 ? null : list.slice(1))),
  "a list was read with a value of nobody's": (records, random) =>
    changeShown(records, random, (list) => [...list.slice(0, -1), 987_654_321]),
  "a tracker says something else in the end": (records, random) => {
    const writes = new Set(
      records.flatMap((it) => (it.type === "invocation" && !it.readOnly ? [it.txn] : [])),
    );
    return change(records, random, isFinalReport, (report) => {
      // Trackers may differ about a lost node's disk, about reads, and about broken promises.
      if (report.level === "disk" || report.verdict === "broken" || !writes.has(report.txn)) return null;
      return { ...report, verdict: report.verdict === "durable" ? "lost" : "durable" };
    });
  },
  "all trackers say lost of what is there": (records, random) => flipAll(records, random, "durable", "lost"),
  "all trackers say durable of what is lost": (records, random) =>
    flipAll(records, random, "lost", "durable"),
  "a final word is missing": (records, random) => {
    const reports = records.filter(isFinalReport);
    const lost = random.pick(reports);
    return records.filter((record) => record !== lost);
  },
  "a final word is pending": (records, random) =>
    change(records, random, isFinalReport, (report) => ({ ...report, verdict: "pending" })),
  "a commit that is there was answered as aborted": (records, random) => {
    const there = new Set(finalOf(records).receipts.map(({ txn }) => txn));
    return change(records, random, isAnswer, (answer) => {
      return answer.outcome === "committed" && there.has(answer.txn)
        ? { ...answer, outcome: "aborted", shown: null }
        : null;
    });
  },
};

/** All reports about one writing transaction, at every level, so that none explains the others. */
function flipAll(
  records: readonly HistoryRecord[],
  random: Random,
  from: VerdictReport["verdict"],
  to: VerdictReport["verdict"],
): HistoryRecord[] | null {
  const readOnly = new Set(
    records.flatMap((it) => (it.type === "invocation" && it.readOnly ? [it.txn] : [])),
  );
  const broken = new Set(
    records.flatMap((it) => (it.type === "report" && it.verdict === "broken" ? [it.txn] : [])),
  );
  const fit = records.filter(
    (it): it is VerdictReport =>
      isFinalReport(it) &&
      it.level === "global" &&
      it.verdict === from &&
      !readOnly.has(it.txn) &&
      !broken.has(it.txn),
  );
  if (fit.length === 0) return null;
  const { txn } = random.pick(fit);
  return records.map((it) => (isFinalReport(it) && it.txn === txn ? { ...it, verdict: to } : it));
}
