// The records of one physical log, and the tables that replaying them gives. Knows neither nodes
// nor time.
import { type OperatorCommand } from "@highwater/authority";
import {
  type EpochId,
  type EpochRecord,
  type Offset,
  type TxnId,
  txnTimestampMs,
  ZERO,
} from "@highwater/protocol";
import { type Receipt, type ReceiptKey } from "../port.ts";

export type Change =
  | { readonly kind: "prepared" }
  | { readonly kind: "put"; readonly key: string; readonly value: string }
  | { readonly kind: "receipt"; readonly key: ReceiptKey; readonly receipt: Receipt }
  | { readonly kind: "epoch"; readonly record: EpochRecord; readonly timeline: number }
  | {
      readonly kind: "marks_raised";
      readonly epoch: EpochId;
      readonly marks: Readonly<Record<string, string>>;
    }
  | ({ readonly kind: "witness"; readonly helper: string } & StoredWitness)
  | ({ readonly kind: "command_issued" } & StoredCommand)
  | { readonly kind: "command_done"; readonly id: string }
  | { readonly kind: "window"; readonly expiredBeforeMs: number; readonly ceilingMs: number };

export interface StoredWitness {
  readonly epoch: EpochId;
  readonly reached: Offset;
  readonly marks: Readonly<Record<string, string>>;
}

export interface StoredCommand extends OperatorCommand {
  readonly node: string;
  /** Number of epochs in this history when the command was given. */
  readonly afterEpochs: number;
}

/**
 * One atomic entry of a log. Its identity is the object itself: two logs share a prefix if and only
 * if they share records.
 */
export interface LogRecord {
  readonly start: Offset;
  readonly end: Offset;
  readonly changes: readonly Change[];
}

const HEADER_BYTES = 24;
const SIZES: Readonly<Record<Change["kind"], number>> = {
  prepared: 512,
  put: 16,
  receipt: 48,
  epoch: 160,
  marks_raised: 56,
  witness: 40,
  command_issued: 64,
  command_done: 32,
  window: 32,
};

/** Every kind of change has a size of its own, so that logs that diverge do not grow in step. */
export function sizeOf(changes: readonly Change[]): number {
  return changes.reduce((sum, change) => {
    const text = change.kind === "put" ? change.key.length + change.value.length : 0;
    return sum + SIZES[change.kind] + text;
  }, HEADER_BYTES);
}

/** The primary key of a receipt as one text. */
export function receiptName({ id, tag }: ReceiptKey): string {
  return `${id}/${tag}`;
}

export interface StoredEpoch {
  readonly record: EpochRecord;
  readonly timeline: number;
}

/** The tables, as of some position in a log. */
export class History {
  prepared = false;
  readonly rows = new Map<string, string>();
  /** By `receiptName`. */
  readonly receipts = new Map<string, Receipt & { readonly id: TxnId }>();
  readonly epochs: StoredEpoch[] = [];
  readonly witnesses = new Map<string, StoredWitness>();
  /** Operator's commands that no service has carried out, oldest first. */
  commands: StoredCommand[] = [];
  window = { expiredBeforeMs: 0, ceilingMs: 0 };

  static of(records: readonly LogRecord[]): History {
    const history = new History();
    for (const record of records) history.apply(record);
    return history;
  }

  apply(record: LogRecord): void {
    for (const change of record.changes) this.#change(change);
  }

  #change(change: Change): void {
    switch (change.kind) {
      case "prepared":
        this.prepared = true;
        return;
      case "put":
        this.rows.set(change.key, change.value);
        return;
      case "receipt":
        this.receipts.set(receiptName(change.key), { ...change.receipt, id: change.key.id });
        return;
      case "epoch":
        this.epochs.push({ record: change.record, timeline: change.timeline });
        return;
      case "marks_raised":
        this.#raise(change.epoch, change.marks);
        return;
      case "witness":
        this.#witness(change);
        return;
      case "command_issued":
        this.commands.push(change);
        return;
      case "command_done":
        this.#carryOut(change.id);
        return;
      case "window":
        this.window = { expiredBeforeMs: change.expiredBeforeMs, ceilingMs: change.ceilingMs };
        for (const [name, { id }] of this.receipts)
          if (txnTimestampMs(id) < change.expiredBeforeMs) this.receipts.delete(name);
        return;
    }
  }

  #raise(epoch: EpochId, marks: Readonly<Record<string, string>>): void {
    const at = this.epochs.findIndex(({ record }) => record.id === epoch);
    const stored = this.epochs[at];
    if (stored === undefined) return;
    const finalMarks = { ...stored.record.finalMarks };
    for (const [level, mark] of Object.entries(marks))
      if (BigInt(mark) > BigInt(finalMarks[level] ?? -1)) finalMarks[level] = mark;
    this.epochs[at] = { ...stored, record: { ...stored.record, finalMarks } };
  }

  /** Those that were given before it are settled with it; one that was given since still waits. */
  #carryOut(id: string): void {
    const at = this.commands.findIndex((command) => command.id === id);
    const node = this.commands[at]?.node;
    this.commands = this.commands.filter((command, index) => index > at || command.node !== node);
  }

  /**
   * The newest command for the node, unless this history has since gone on elsewhere or under
   * another command.
   */
  pendingCommand(node: string): OperatorCommand | null {
    const pending = this.commands.findLast(
      (command) =>
        command.node === node &&
        this.epochs
          .slice(command.afterEpochs)
          .every(({ record }) => record.node === node && !record.commanded),
    );
    return pending === undefined ? null : { id: pending.id, overrules: pending.overrules };
  }

  get newest(): StoredEpoch | undefined {
    return this.epochs.at(-1);
  }

  #witness({ helper, epoch, reached, marks }: Extract<Change, { kind: "witness" }>): void {
    const known = this.witnesses.get(helper);
    const before = known?.epoch === epoch ? known.marks : {};
    this.witnesses.set(helper, { epoch, reached, marks: { ...before, ...marks } });
  }

  /** By level, the highest mark of the epoch that a witness names. */
  witnessedMarks(epoch: EpochId): Record<string, string> {
    const highest: Record<string, string> = {};
    for (const { marks } of [...this.witnesses.values()].filter((witness) => witness.epoch === epoch))
      for (const [level, mark] of Object.entries(marks))
        if (BigInt(mark) > BigInt(highest[level] ?? -1)) highest[level] = mark;
    return highest;
  }

  /** Highest witness of the epoch, or null. */
  witnessOf(epoch: EpochId): Offset | null {
    let reached: Offset | null = null;
    for (const witness of this.witnesses.values())
      if (witness.epoch === epoch && witness.reached > (reached ?? ZERO)) reached = witness.reached;
    return reached;
  }
}
