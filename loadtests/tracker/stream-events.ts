// Finds the marks among the events of the durability stream with as little work as possible. Pure.

export interface MarkEvent {
  /** The second part of its id: its number on this tracker. */
  readonly number: number;
  /** The marks by level; parsed only when asked for. */
  readonly levels: () => Readonly<Record<string, string>>;
}

const ID = "id: ";
const MARK = "\nevent: mark\n";
const DATA = "data: ";
const END = "\n\n";

/**
 * `rest`: the beginning of an event that is not complete. Bytes between events, such as a chunk's
 * length, are skipped.
 */
export function eventsIn(text: string): { readonly events: MarkEvent[]; readonly rest: string } {
  const events: MarkEvent[] = [];
  let from = 0;
  for (;;) {
    const end = text.indexOf(END, from);
    if (end === -1) return { events, rest: text.slice(from) };
    const idAt = text.indexOf(ID, from);
    const idEnd = idAt === -1 ? -1 : text.indexOf("\n", idAt);
    if (idAt !== -1 && idAt < end && text.startsWith(MARK, idEnd)) {
      const number = Number(text.slice(text.indexOf(".", idAt) + 1, idEnd));
      const dataAt = text.indexOf(DATA, idEnd) + DATA.length;
      events.push({ number, levels: () => levelsOf(text.slice(dataAt, end)) });
    }
    from = end + END.length;
  }
}

function levelsOf(data: string): Readonly<Record<string, string>> {
  return (JSON.parse(data) as { levels: Record<string, string> }).levels;
}
