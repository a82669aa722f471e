// The client's extended messages since its last Sync: what they have run, and so whether the
// gateway's check may follow them.
import { type TransactionStatus } from "./state.ts";
import { type StatementInfo } from "./statement.ts";

export class Batch {
  /** Extended messages have been sent since the last Sync. */
  isOpen = true;
  /** A check may follow every statement. */
  isCheckable = true;
  executed = 0;
  /** It takes a snapshot itself, or the server was idle before it. */
  mayTakeSnapshot: boolean;
  /** When it began, the server was idle inside a transaction block. */
  readonly beganIdleInBlock: boolean;
  /** A statement certainly writes, and none can be a COPY. */
  hasData = false;
  /** A receipt may share the batch with its statements. */
  isSociable = true;
  /** A statement may be a COPY. */
  mayCopy = false;
  /** A statement may set `highwater.id`. */
  namesId = false;

  /** `isIdle`: the server owes no answer. */
  constructor(isIdle: boolean, status: TransactionStatus) {
    this.mayTakeSnapshot = isIdle;
    this.beganIdleInBlock = isIdle && status === "T";
  }

  /** What there is before the first message. */
  static closed(): Batch {
    const batch = new Batch(false, "I");
    batch.isOpen = false;
    return batch;
  }

  executes({ kind, namesId, takesSnapshot }: StatementInfo): void {
    this.executed++;
    const isChecked = kind === "read" || kind === "checkable";
    if (!isChecked) this.isCheckable = false;
    if (kind === "data") this.hasData = true;
    else if (!isChecked) this.isSociable = false;
    if (kind === "copy" || kind === "other") this.mayCopy = true;
    if (namesId) this.namesId = true;
    if (takesSnapshot) this.mayTakeSnapshot = true;
  }
}
