// Assembles the records of a history and refuses those that contradict each other. Judges nothing.
import { inferAttempts } from "./attempts.ts";
import { EpochTree } from "./epochs.ts";
import { restoreReceipts } from "./expiry.ts";
import { HistoryError, type Origin } from "./faults.ts";
import {
  type ClientReply,
  type BrokenRange,
  type Delivery,
  type End,
  type EpochId,
  type Failure,
  type Fault,
  type FinalState,
  type HistoryRecord,
  type Invocation,
  type Level,
  type Resolution,
  type Scenario,
  type Subscription,
  type VerdictReport,
  type WrongClock,
} from "./history.ts";
import { Lists, type ListView } from "./lists.ts";
import { type History, type Transaction, type UndoneRange } from "./model.ts";

/** The level that survives no failover. A scenario may name others. */
const CRASH_ONLY = ["disk"];
const OF_SESSION = "session";

interface Waiting<T> {
  readonly record: T;
  readonly origin: Origin;
}

export class Gathering {
  readonly #transactions: Transaction[] = [];
  readonly #byId = new Map<string, Transaction>();
  readonly #writers = new Map<number, Transaction>();
  readonly #lists = new Lists();
  readonly #faults: Fault[] = [];
  readonly #clocks: WrongClock[] = [];
  readonly #failures: Waiting<Failure>[] = [];
  readonly #early: Waiting<ClientReply | Resolution>[] = [];
  readonly #reports: VerdictReport[] = [];
  readonly #undone: BrokenRange[] = [];
  readonly #subscriptions = new Map<string, Subscription>();
  readonly #deliveries: Delivery[] = [];
  readonly #ends: End[] = [];
  readonly #texts = new Map<string, string>();
  #scenario: Scenario | null = null;
  #final: FinalState | null = null;

  add(record: HistoryRecord, origin: Origin): void {
    switch (record.type) {
      case "scenario":
        if (this.#scenario !== null) throw twice("scenario", origin);
        this.#scenario = record;
        break;
      case "invocation":
        this.#invoked(record, origin);
        break;
      case "answer":
      case "resolution": {
        const transaction = this.#byId.get(record.txn);
        if (transaction === undefined) this.#early.push({ record, origin });
        else this.#answered(transaction, record, origin);
        break;
      }
      case "report":
        this.#reports.push({
          ...record,
          txn: this.#text(record.txn),
          level: this.#text(record.level),
          tracker: record.tracker === null ? null : this.#text(record.tracker),
          attempt: record.attempt === null ? null : this.#text(record.attempt),
          // Only this rule is used later; keeping the others would take memory.
          rule: record.rule === OF_SESSION ? OF_SESSION : null,
        });
        break;
      case "broken_range":
        this.#undone.push(record);
        break;
      case "subscription":
        if (this.#subscriptions.has(record.endpoint)) throw twice(`endpoint ${record.endpoint}`, origin);
        this.#subscriptions.set(record.endpoint, record);
        break;
      case "delivery":
        this.#deliveries.push(record);
        break;
      case "end":
        this.#ends.push(record);
        break;
      case "fault":
        this.#faults.push(record);
        break;
      case "clock":
        this.#clocks.push(record);
        break;
      case "failure":
        this.#failures.push({ record, origin });
        break;
      case "final":
        if (this.#final !== null) throw twice("final state", origin);
        this.#final = record;
        break;
    }
  }

  finish(): History {
    for (const { record, origin } of this.#early) {
      const transaction = this.#byId.get(record.txn);
      if (transaction === undefined) throw contradictory(`nobody has invoked ${record.txn}`, origin);
      this.#answered(transaction, record, origin);
    }
    const [scenario, final] = [this.#scenario, this.#final];
    if (scenario === null) throw new HistoryError("incomplete", "there is no scenario", null);
    if (final === null) throw new HistoryError("incomplete", "there is no final state", null);
    this.#requireLevels(scenario);
    this.#spreadReports(scenario);
    for (const receipt of final.receipts) {
      const transaction = this.#byId.get(receipt.txn);
      if (transaction !== undefined) transaction.receipt ??= receipt;
    }
    const finalLists = new Map<string, ListView>();
    for (const [key, list] of Object.entries(final.lists)) finalLists.set(key, this.#lists.intern(key, list));
    const committed = new Set(final.receipts.flatMap(({ txn, kind }) => (kind === "commit" ? [txn] : [])));
    const redone = (final.redone ?? []).filter(({ txn }) => committed.has(txn));
    const history: History = {
      scenario,
      crashOnly: new Set(
        (scenario.crashOnly ?? CRASH_ONLY)
          .map((level) => scenario.levels.indexOf(level))
          .filter((at) => at >= 0),
      ),
      transactions: this.#transactions,
      byId: this.#byId,
      writers: this.#writers,
      faults: this.#faults,
      clocks: this.#clocks,
      failures: this.#failures.map(({ record }) => record).sort((one, other) => one.atMs - other.atMs),
      undone: [
        ...this.#undone.map((range) => undoneBy("event", range, scenario)),
        ...this.#deliveries.flatMap(({ atMs, promises }) =>
          promises.map((range) => undoneBy("webhook", { ...range, atMs }, scenario)),
        ),
      ].sort((one, other) => one.atMs - other.atMs),
      subscriptions: this.#subscriptions,
      deliveries: this.#deliveries.sort((one, other) => one.atMs - other.atMs),
      ends: this.#ends,
      final,
      redone: new Map(redone.map(({ root, txn }) => [root, txn])),
      finalLists,
      epochs: new EpochTree(final.epochs),
      trackers: [
        ...new Set(
          this.#reports.flatMap(({ by, tracker }) => (by === "final" && tracker !== null ? [tracker] : [])),
        ),
      ].sort(),
      firstSeen: this.#firstSeen(),
    };
    inferAttempts(history);
    restoreReceipts(history);
    return history;
  }

  #invoked(invocation: Invocation, origin: Origin): void {
    const { txn } = invocation;
    if (this.#byId.has(txn)) throw contradictory(`${txn} is invoked twice`, origin);
    const transaction: Transaction = {
      index: this.#transactions.length,
      invocation,
      answer: null,
      resolution: null,
      reports: [],
      reads: [],
      sums: [],
      rowReads: [],
      receipt: null,
      readIn: null,
      attempts: [],
      isInferred: false,
      isForgotten: false,
      seenIn: new Set<EpochId>(),
    };
    this.#text(txn);
    for (const operation of invocation.operations) {
      if (!("value" in operation)) continue;
      if (invocation.readOnly) throw contradictory(`${txn} only reads, and writes`, origin);
      if (this.#writers.has(operation.value)) {
        throw contradictory(`the value ${String(operation.value)} is written twice`, origin);
      }
      this.#writers.set(operation.value, transaction);
    }
    this.#transactions.push(transaction);
    this.#byId.set(txn, transaction);
  }

  #answered(transaction: Transaction, record: ClientReply | Resolution, origin: Origin): void {
    const position =
      record.position === null
        ? null
        : { epoch: this.#text(record.position.epoch), offset: record.position.offset };
    if (record.type === "resolution") {
      if (transaction.resolution !== null) throw contradictory(`${record.txn} is resolved twice`, origin);
      transaction.resolution = { ...record, position };
      return;
    }
    if (transaction.answer !== null) throw contradictory(`${record.txn} is answered twice`, origin);
    const { tokenOf } = record;
    if (tokenOf !== undefined && !this.#byId.has(tokenOf)) this.#byId.set(this.#text(tokenOf), transaction);
    transaction.answer = { ...record, position, shown: null };
    const { shown } = record;
    if (shown === null || record.outcome === "aborted" || record.outcome === "unknown") return;
    const { operations } = transaction.invocation;
    if (shown.length !== operations.length) {
      throw contradictory(
        `${String(operations.length)} operations have shown ${String(shown.length)} things`,
        origin,
      );
    }
    transaction.readIn = position?.epoch ?? null;
    for (const [at, operation] of operations.entries()) {
      const what = shown[at] ?? null;
      if (operation.f === "add" || operation.f === "look") {
        const log = Array.isArray(what) ? (what as readonly number[]) : null;
        transaction.rowReads.push({ key: operation.key, operation: at, log });
      } else if (operation.f === "sum" && typeof what === "number") transaction.sums.push(what);
      else if ((operation.f === "read" || operation.f === "readAppend") && Array.isArray(what)) {
        const { spine, length } = this.#lists.intern(operation.key, what as readonly number[]);
        transaction.reads.push({ key: operation.key, operation: at, spine, length });
      } else if (what !== null || operation.f.startsWith("read") || operation.f === "sum") {
        throw contradictory(
          `operation ${String(at)}, ${operation.f}, cannot have shown ${JSON.stringify(what)}`,
          origin,
        );
      }
    }
  }

  #requireLevels({ levels }: Scenario): void {
    const known = new Set<Level>(levels);
    const requireLevel = (level: Level, of: string): void => {
      if (!known.has(level))
        throw new HistoryError("contradictory", `${of}: there is no level ${level}`, null);
    };
    for (const { record } of this.#failures) {
      for (const level of record.kept) requireLevel(level, `failure ${record.kind}`);
    }
    for (const { txn, level } of this.#reports) requireLevel(level, `report about ${txn}`);
    for (const { level, epoch } of this.#undone) requireLevel(level, `broken in ${epoch}`);
    for (const { message, transactions, promises } of this.#deliveries) {
      const named = transactions.flatMap(({ verdicts }) => Object.keys(verdicts));
      for (const level of [...named, ...promises.map((range) => range.level)]) requireLevel(level, message);
    }
    for (const { invocation, answer } of this.#transactions) {
      requireLevel(invocation.level, invocation.txn);
      if (answer?.durableAt != null) requireLevel(answer.durableAt, invocation.txn);
    }
  }

  #spreadReports({ levels }: Scenario): void {
    for (const { atMs, txn, level, verdict, by, tracker, attempt, rule, position } of this.#reports) {
      // The transactions that set up tables are not part of the history.
      this.#byId.get(txn)?.reports.push({
        atMs,
        level: levels.indexOf(level),
        verdict,
        by,
        tracker,
        attempt,
        ...(rule === OF_SESSION && { isOfSession: true }),
        position: position == null ? null : { epoch: position.epoch, offset: BigInt(position.offset) },
      });
    }
    for (const { atMs, transactions } of this.#deliveries) {
      for (const { txn, attempt, verdicts, position } of transactions) {
        for (const [level, verdict] of Object.entries(verdicts))
          this.#byId.get(txn)?.reports.push({
            atMs,
            level: levels.indexOf(level),
            verdict,
            by: "webhook",
            tracker: null,
            attempt: this.#text(attempt),
            position: position === null ? null : { epoch: position.epoch, offset: BigInt(position.offset) },
          });
      }
    }
    for (const { answer, reports } of this.#transactions) {
      if (answer?.durableAt == null) continue;
      const level = levels.indexOf(answer.durableAt);
      reports.push({
        atMs: answer.atMs,
        level,
        verdict: "durable",
        by: "answer",
        tracker: null,
        attempt: null,
        position: null,
      });
    }
  }

  #firstSeen(): Map<EpochId, number> {
    const seen = new Map<EpochId, number>();
    const note = (epoch: EpochId, atMs: number): void => {
      seen.set(epoch, Math.min(atMs, seen.get(epoch) ?? Number.POSITIVE_INFINITY));
    };
    for (const { answer, resolution } of this.#transactions) {
      if (answer?.position != null) note(answer.position.epoch, answer.atMs);
      if (resolution?.position != null) note(resolution.position.epoch, resolution.atMs);
    }
    return seen;
  }

  /** One string for all equal texts, because a history consists mostly of ids. */
  #text(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    this.#texts.set(text, text);
    return text;
  }
}

function undoneBy(
  by: UndoneRange["by"],
  { atMs, level, epoch, from, to }: Pick<BrokenRange, "atMs" | "level" | "epoch" | "from" | "to">,
  { levels }: Scenario,
): UndoneRange {
  return { atMs, by, level: levels.indexOf(level), epoch, from: BigInt(from), to: BigInt(to) };
}

function contradictory(message: string, origin: Origin): HistoryError {
  return new HistoryError("contradictory", message, origin);
}

function twice(what: string, origin: Origin): HistoryError {
  return contradictory(`there is a second ${what}`, origin);
}
