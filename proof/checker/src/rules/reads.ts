// A single read must not show values without a writer, values of aborted transactions or of other
// histories, half of a transaction, or less than its own writes. freshness.ts judges values that it
// misses.
import { type Findings } from "../findings.ts";
import { type EpochId } from "../history.ts";
import { type Spine, isCompatible } from "../lists.ts";
import { getOrMake } from "../maps.ts";
import {
  type History,
  type ListRead,
  type Transaction,
  appendsOf,
  attemptIn,
  externalLength,
  isAborted,
  isLost,
  isVoid,
  ownBefore,
  wasSettledBehind,
} from "../model.ts";
import { listOf } from "./order.ts";

export function judgeReads(history: History, findings: Findings): void {
  const strange = new StrangeValues(history);
  for (const reader of history.transactions) {
    if (reader.reads.length > 0 && reader.readIn === null) findings.ambiguity("read_without_epoch");
    for (const read of reader.reads) {
      judgeValues(history, findings, strange, reader, read);
      judgeOwn(findings, reader, read);
      judgeIntermediate(history, findings, reader, read);
    }
    judgeRepeated(findings, reader);
  }
  for (const list of history.finalLists.values()) {
    for (const { at, what } of strange.anywhere(list.spine)) {
      if (at >= list.length || what !== "read.garbage") continue;
      findings.violation(what, [], () => {
        return `key ${list.spine.key}: nobody has written ${String(list.spine.values[at])} to it; it is there in the end`;
      });
    }
  }
}

interface Strange {
  readonly at: number;
  readonly what: "read.garbage" | "G1a" | "read.other-history" | "unplaced";
}

/** Values that no list, or no list of an epoch, may have. Found once for all reads of a list. */
class StrangeValues {
  readonly #history: History;
  readonly #anywhere = new Map<Spine, Strange[]>();
  readonly #inEpoch = new Map<Spine, Map<EpochId, Strange[]>>();

  constructor(history: History) {
    this.#history = history;
  }

  anywhere(spine: Spine): readonly Strange[] {
    return getOrMake(this.#anywhere, spine, () => {
      return spine.values.flatMap((value, at): Strange[] => {
        const writer = this.#history.writers.get(value);
        const isWritten = writer !== undefined && keyOf(writer, value) === spine.key;
        if (!isWritten) return [{ at, what: "read.garbage" }];
        return isAborted(writer) ? [{ at, what: "G1a" }] : [];
      });
    });
  }

  inEpoch(spine: Spine, epoch: EpochId): readonly Strange[] {
    const epochs = getOrMake(this.#inEpoch, spine, () => new Map<EpochId, Strange[]>());
    return getOrMake(epochs, epoch, () => {
      const tree = this.#history.epochs;
      return spine.values.flatMap((value, at): Strange[] => {
        const writer = this.#history.writers.get(value);
        if (writer === undefined || isVoid(writer)) return [];
        if (attemptIn(tree, writer, epoch) !== null) return [];
        const { attempts } = writer;
        const isKnown = [epoch, ...attempts].every((it) => tree.hasPath(it)) && attempts.length > 0;
        return [{ at, what: isKnown ? "read.other-history" : "unplaced" }];
      });
    });
  }
}

function keyOf(writer: Transaction, value: number): string | undefined {
  return appendsOf(writer).find((append) => append.value === value)?.key;
}

function judgeValues(
  history: History,
  findings: Findings,
  strange: StrangeValues,
  reader: Transaction,
  read: ListRead,
): void {
  const { spine, length, key } = read;
  const { txn } = reader.invocation;
  const inEpoch = reader.readIn === null ? [] : strange.inEpoch(spine, reader.readIn);
  for (const { at, what } of [...strange.anywhere(spine), ...inEpoch]) {
    if (at >= length) continue;
    const value = spine.values[at] ?? Number.NaN;
    const writer = history.writers.get(value);
    const involved = writer === undefined ? [txn] : [txn, writer.invocation.txn];
    switch (what) {
      case "unplaced":
        findings.ambiguity("epoch_without_path");
        break;
      case "read.garbage":
        findings.violation(what, involved, () => {
          return `T1 read ${String(value)} in key ${key}, to which nobody has written it`;
        });
        break;
      case "G1a":
        if (writer !== undefined && isLost(reader) && wasSettledBehind(history.epochs, writer, reader)) break;
        findings.violation(what, involved, () => {
          return `T1 read ${String(value)} in key ${key}, which T2 has appended; T2 was aborted`;
        });
        break;
      case "read.other-history":
        findings.violation(what, involved, () => {
          const epochs = writer?.attempts.join(", ") ?? "";
          return (
            `T1, in epoch ${String(reader.readIn)}, read ${String(value)} in key ${key}; T2 has appended it in ` +
            `epoch ${epochs}, which is not in that history`
          );
        });
        break;
    }
  }
}

/**
 * A transaction sees its own earlier appends at the end of the list, in order, and not its later
 * ones.
 */
function judgeOwn(findings: Findings, reader: Transaction, read: ListRead): void {
  const { spine, length, key, operation } = read;
  const own = appendsOf(reader).filter((append) => append.key === key);
  const before = ownBefore(reader, key, operation);
  for (const [nth, { value }] of own.entries()) {
    const at = spine.indexOf(value);
    const isThere = at >= 0 && at < length;
    if (nth < before ? at === length - before + nth : !isThere) continue;
    findings.violation("read.internal", [reader.invocation.txn], () => {
      const what =
        nth < before ? "has to end with what it has appended itself" : "cannot have what it will append";
      return `T1 read ${listOf(read)} in key ${key}, which ${what}: ${String(value)}`;
    });
    return;
  }
}

/** All reads of one transaction use one snapshot. */
function judgeRepeated(findings: Findings, reader: Transaction): void {
  const first = new Map<string, ListRead>();
  for (const read of reader.reads) {
    const before = first.get(read.key);
    if (before === undefined) {
      first.set(read.key, read);
      continue;
    }
    const one = { spine: before.spine, length: externalLength(reader, before) };
    const other = { spine: read.spine, length: externalLength(reader, read) };
    if (one.length === other.length && isCompatible(one, other)) continue;
    findings.violation("read.internal", [reader.invocation.txn], () => {
      return `T1 read key ${read.key} as ${listOf(before)} and then as ${listOf(read)}`;
    });
  }
}

/** Its last value must be the last one that the value's writer appended to the key. */
function judgeIntermediate(
  { writers }: History,
  findings: Findings,
  reader: Transaction,
  read: ListRead,
): void {
  const length = externalLength(reader, read);
  const last = read.spine.values[length - 1];
  const writer = last === undefined ? undefined : writers.get(last);
  if (last === undefined || writer === undefined || writer === reader) return;
  const missing = appendsOf(writer).find(({ key, value }) => {
    const at = key === read.key ? read.spine.indexOf(value) : 0;
    return at < 0 || at >= length;
  });
  if (missing === undefined) return;
  findings.violation("G1b", [reader.invocation.txn, writer.invocation.txn], () => {
    return `T1 read key ${read.key} up to ${String(last)} of T2, without ${String(missing.value)}, which T2 has appended to it, too`;
  });
}
