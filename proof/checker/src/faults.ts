// The reasons why a history cannot be judged. They are not violations: the product may be right or
// wrong.

export type HistoryFault =
  /** A file or folder cannot be read, or a folder contains no history. */
  | "unreadable"
  /** A line is not JSON, or not a record of the format. */
  | "malformed"
  /**
   * Well-formed records that contradict each other: two answers for one transaction, or two
   * transactions that write one value.
   */
  | "contradictory"
  /** The scenario or the final state is missing. */
  | "incomplete";

/** The origin of a record: its file and line, or its number without a file. */
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
