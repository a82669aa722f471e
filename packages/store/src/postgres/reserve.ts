// Advances the sequences before an epoch begins, with a function whose owner may have more rights
// than the service. (docs/decisions/0239-sequences-are-advanced-at-a-new-epoch.md,
// docs/decisions/0251-sequences-are-reached-by-oid.md)
import { type ClientBase } from "pg";
import { type MintRequest, type Reserved } from "../port.ts";
import { BEGIN_RESERVE, END_RESERVE, RESERVE_SEQUENCES } from "./sql.ts";

/**
 * One transaction advances a part of 500 sequences, since it holds a lock on each. So many take at
 * least this many bytes of their catalog. Its size is known without a look at its rows.
 */
const PART_BYTES = 40_000;
/** More sequences than are ever advanced in the time limit. */
const PARTS_MAX = 200;
/** Writes wait for this long at most until the sequences are advanced. */
const RESERVE_LIMIT_MS = 3_000;
/** A part that begins in time and hangs ends then, and the epoch begins. */
const PART_LIMIT_MS = 4_000;

interface Part {
  readonly reserved: (Reserved & { readonly reached: string | null }) | null;
}

/**
 * Advances the sequences, in transactions of their own: no rollback undoes it. An epoch without the
 * reserve is better than none, so a failure is reported and stops nothing. However many sequences
 * there are, the statements end soon after the limit: behind it a part does nothing.
 */
export function reserveSequences(
  client: ClientBase,
  id: string,
  { sequenceReserve = 0, onReserved }: MintRequest,
  server: { readonly now_ms: string; readonly sequence_bytes: number },
): Promise<unknown>[] {
  if (sequenceReserve === 0) return [];
  // One more than there can be: it finds none left.
  const parts = Math.min(PARTS_MAX, 1 + Math.ceil(server.sequence_bytes / PART_BYTES));
  const untilMs = Number(server.now_ms) + RESERVE_LIMIT_MS;
  let hasFailed = false;
  const report = ({ reserved }: Part, part: number): void => {
    if (reserved === null) return;
    const { reached, ...done } = reserved;
    if (part === 0 || done.advanced > 0 || Object.keys(done.problems).length > 0) onReserved?.(done);
    if (part < parts - 1 || reached === null) return;
    onReserved?.({ advanced: 0, problems: { [`all with OIDs above ${reached}`]: "late" }, unnamed: 0 });
  };
  return [
    client.query(BEGIN_RESERVE, [String(PART_LIMIT_MS)]),
    ...Array.from({ length: parts }, (_, part) =>
      client.query<Part>(RESERVE_SEQUENCES, [id, sequenceReserve, untilMs]).then(
        ({ rows: [row] }) => {
          if (row !== undefined) report(row, part);
        },
        (cause: unknown) => {
          // The others mostly fail alike, as without the function.
          if (!hasFailed)
            onReserved?.({
              advanced: 0,
              problems: { [`part ${String(part + 1)}`]: String(cause) },
              unnamed: 0,
            });
          hasFailed = true;
        },
      ),
    ),
    client.query(END_RESERVE),
  ];
}
