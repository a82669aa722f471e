// What gateways hand in of one owner's transactions in one epoch, as one text: a tracker that keeps
// and forgets thousands a second need not look into it. Read again only for what was lost.
import { type AnsweredAnnouncement, type ContentsAnnouncement } from "@highwater/protocol";
import { isSealed } from "@highwater/service/sealed";
import { sortable } from "../shell/ledger-codec.ts";

export type ContentsMessage = ContentsAnnouncement | AnsweredAnnouncement;

/** Of one owner and one epoch, in the order in which they came. */
export interface ContentsGroup {
  readonly owner: string;
  readonly epoch: string;
  /** How many of the entries are contents. */
  readonly transactions: number;
  /** The furthest of their positions; see `sortable`. Empty: no entry has one. */
  readonly place: string;
  readonly entries: string;
}

export type Entry =
  | { readonly kind: "contents"; readonly id: string; readonly offset: string; readonly sealed: string }
  | { readonly kind: "answered"; readonly id: string; readonly answered: "yes" | "no" };

/** None of the parts can contain these. */
const [END, SEPARATOR] = [";", ","];

export function entryText(entry: Entry): string {
  const { id } = entry;
  const parts = entry.kind === "answered" ? [id, entry.answered] : [id, entry.offset, entry.sealed];
  return parts.join(SEPARATOR) + END;
}

export function readEntries(text: string): Entry[] {
  return text
    .split(END)
    .slice(0, -1)
    .map((each) => {
      const [id = "", second = "", sealed] = each.split(SEPARATOR);
      return sealed === undefined
        ? { kind: "answered", id, answered: second === "yes" ? "yes" : "no" }
        : { kind: "contents", id, offset: second, sealed };
    });
}

/** `unreadable`: contents that are not sealed as this version reads. */
export function groupsOf(messages: readonly ContentsMessage[]): {
  readonly groups: readonly ContentsGroup[];
  readonly unreadable: readonly ContentsAnnouncement[];
} {
  const groups = new Map<string, { -readonly [key in keyof ContentsGroup]: ContentsGroup[key] }>();
  const unreadable: ContentsAnnouncement[] = [];
  for (const message of messages) {
    if (message.kind === "contents" && !isSealed(message.sealed)) {
      unreadable.push(message);
      continue;
    }
    const [owner, epoch] = [message.owner ?? "0", message.epoch.toLowerCase()];
    let group = groups.get(owner + epoch);
    if (group === undefined)
      groups.set(owner + epoch, (group = { owner, epoch, transactions: 0, place: "", entries: "" }));
    if (message.kind === "answered") {
      const { answered, also = [] } = message;
      for (const id of [message.id, ...also])
        group.entries += entryText({ kind: "answered", id: id.toLowerCase(), answered });
      continue;
    }
    group.entries += entryText({ ...message, id: message.id.toLowerCase() });
    group.transactions++;
    const place = sortable(message.offset);
    if (place > group.place) group.place = place;
  }
  return { groups: [...groups.values()], unreadable };
}
