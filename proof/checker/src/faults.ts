// Why a history cannot be judged. That is no violation: nobody knows whether the product is right.

export type HistoryFault =
  /** A file or folder cannot be read, or a folder has no history in it. */
  | "unreadable"
  /** A line is no JSON, or not a record of the format. */
  | "malformed"
  /** Each record is well-formed and together they are none: two answers of one transaction, a value that two write. */
  | "contradictory"
  /** No scenario, or no final state. */
  | "incomplete";

/** Where a record was: its file and line, or its number when there is no file. */
export interface Origin {
  readonly file: string | null;
  readonly line: number;
}

export class HistoryError extends Error {
  override readonly name = "HistoryError";
  readonly fault: HistoryFault;
  readonly origin: Origin | null;

  constructor(fault: HistoryFault, message: string, origin: Origin | null, cause?: unknown) {
    super(origin === null ? message : `${describeOrigin(origin)}: ${message}`, { cause });
    this.fault = fault;
    this.origin = origin;
  }
}

function describeOrigin({ file, line }: Origin): string {
  return file === null ? `record ${String(line)}` : `${file}:${String(line)}`;
}
