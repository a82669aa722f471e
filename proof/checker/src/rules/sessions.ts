// In a session, a later read shows what the session wrote and saw before, if its history still
// contains it. A snapshot read promises only what it asked for.
import { type Findings } from "../findings.ts";
import { type EpochId } from "../history.ts";
import { getOrMake } from "../maps.ts";
import {
  type History,
  type ListRead,
  type Transaction,
  appendsOf,
  attemptIn,
  externalLength,
  isCertain,
} from "../model.ts";
import { type Rule } from "./names.ts";
import { listOf } from "./order.ts";

export function judgeSessions(history: History, findings: Findings): void {
  const sessions = Map.groupBy(history.transactions, ({ invocation }) => invocation.session);
  for (const [session, members] of sessions) {
    if (session === null) continue;
    members.sort((one, other) => one.invocation.atMs - other.invocation.atMs);
    new SessionJudge(history, findings).judge(members);
  }
}

interface Seen {
  readonly reader: Transaction;
  readonly read: ListRead;
}

interface Written {
  readonly writer: Transaction;
  readonly value: number;
}

class SessionJudge {
  readonly #history: History;
  readonly #findings: Findings;
  readonly #written = new Map<string, Written[]>();
  readonly #seen = new Map<string, Seen[]>();

  constructor(history: History, findings: Findings) {
    this.#history = history;
    this.#findings = findings;
  }

  judge(members: readonly Transaction[]): void {
    for (const member of members) {
      if (member.answer?.outcome !== "committed") continue;
      for (const read of member.reads) this.#judgeRead(member, read);
      for (const { key, value } of appendsOf(member)) {
        getOrMake(this.#written, key, () => []).push({ writer: member, value });
      }
      for (const read of member.reads) {
        getOrMake(this.#seen, read.key, () => []).push({ reader: member, read });
      }
    }
  }

  #judgeRead(reader: Transaction, read: ListRead): void {
    const { invocation, readIn } = reader;
    if (readIn === null) return;
    const { isolation, after } = invocation;
    const named = after === null ? undefined : this.#history.byId.get(after);
    if (isolation === "snapshot" && named === undefined) return;
    // A snapshot shows everything up to its token, including what the session saw earlier. A token
    // of a snapshot read may be older than that.
    const isWithNamed = (other: Transaction): boolean =>
      other === named ||
      (named !== undefined && named.invocation.isolation === "serializable" && isBefore(other, named));
    const had = (other: Transaction): boolean =>
      isBefore(other, reader) && (isolation !== "snapshot" || isWithNamed(other));
    const isNamed = (other: Transaction): boolean => isolation === "snapshot" || other === named;
    for (const { writer, value } of this.#written.get(read.key) ?? []) {
      if (!had(writer) || this.#survived(writer, readIn) !== true || contains(read, value)) continue;
      this.#report(isNamed(writer) ? "session.after" : "session.own-writes", reader, writer, read, value);
    }
    // The newest read has seen the most, unless it is a violation itself.
    const last = this.#seen.get(read.key)?.findLast((seen) => had(seen.reader) && seen.reader !== reader);
    if (last === undefined) return;
    const missed = this.#missed(reader, readIn, read, last);
    if (missed !== null) {
      this.#report(
        isNamed(last.reader) ? "session.after" : "session.monotonic",
        reader,
        last.reader,
        read,
        missed,
      );
    }
  }

  /**
   * The newest value that the earlier read saw, that the later read's history contains, and that
   * the later read misses.
   */
  #missed(reader: Transaction, readIn: EpochId, read: ListRead, last: Seen): number | null {
    const { values } = last.read.spine;
    const { writers } = this.#history;
    for (let at = externalLength(last.reader, last.read) - 1; at >= 0; at--) {
      const value = values[at] ?? Number.NaN;
      const writer = writers.get(value);
      if (writer === undefined || writer === reader || this.#survived(writer, readIn) !== true) continue;
      // A value that was read may be lost, and its id may have run again since. Then another
      // attempt survived.
      const seenIn = last.reader.readIn;
      if (seenIn === null || this.#attemptIn(writer, seenIn) !== this.#attemptIn(writer, readIn)) continue;
      return contains(read, value) ? null : value;
    }
    return null;
  }

  /** Whether the epoch's history contains the transaction; null if that is unknown. */
  #survived(transaction: Transaction, epoch: EpochId): boolean | null {
    const { epochs } = this.#history;
    const attempt = this.#attemptIn(transaction, epoch);
    if (attempt === null) return false;
    if (attempt === epoch && isCertain(transaction, epoch)) return true;
    const { receipt } = transaction;
    if (receipt?.kind === "commit" && receipt.epoch === attempt && epochs.inHistory(epoch)) return true;
    for (const seenIn of transaction.seenIn) if (epochs.contains(seenIn, epoch)) return true;
    return null;
  }

  #attemptIn(transaction: Transaction, epoch: EpochId): EpochId | null {
    return attemptIn(this.#history.epochs, transaction, epoch);
  }

  #report(rule: Rule, reader: Transaction, earlier: Transaction, read: ListRead, value: number): void {
    this.#findings.violation(rule, [reader.invocation.txn, earlier.invocation.txn], () => {
      const how = rule === "session.own-writes" ? "written" : "written or seen";
      return `T1 read ${listOf(read)} in key ${read.key} without ${String(value)}, which T2 of its session had ${how} before`;
    });
  }
}

function isBefore(one: Transaction, other: Transaction): boolean {
  return one !== other && one.answer !== null && one.answer.atMs <= other.invocation.atMs;
}

function contains({ spine, length }: ListRead, value: number): boolean {
  const at = spine.indexOf(value);
  return at >= 0 && at < length;
}
