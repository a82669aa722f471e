// Entries as the ledger's file has them: JSON, in which offsets are texts and accounts are names.
import { type Offset, type TxnId } from "@highwater/protocol";
import {
  type Entry,
  type SavedEntry,
  type SavedSource,
  type SavedWaiting,
  type Waiting,
} from "../core/index.ts";

const isBigint = (value: unknown): value is bigint => typeof value === "bigint";

export function encodeEntry(entry: Entry): string {
  const { isExposed: _, ...rest } = entry;
  const state = entry.state.kind === "asked" ? { kind: "unproven" } : entry.state;
  // Metadata are a client's: as a text of their own, whatever they say cannot pass for something of ours.
  const metadata = entry.metadata === null ? null : JSON.stringify(entry.metadata);
  const saved = { ...rest, state, metadata, owner: entry.owner.owner, source: savedSource(entry.source) };
  return JSON.stringify(saved, (_key, value: unknown) =>
    isBigint(value) ? { $offset: value.toString() } : value,
  );
}

function savedSource(source: Entry["source"]): SavedSource | null {
  return source === null ? null : { gateway: source.gateway, region: source.region };
}

export function decodeEntry(body: string): SavedEntry {
  const entry = JSON.parse(body, (_, value: unknown) =>
    typeof value === "object" && value !== null && "$offset" in value ? BigInt(String(value.$offset)) : value,
  ) as SavedEntry & { metadata: string | null };
  const metadata = entry.metadata === null ? null : (JSON.parse(entry.metadata) as Entry["metadata"]);
  return { ...entry, metadata };
}

/** `{ key, body }`: keys sort as their offsets do. */
export function encodeWaiting({ id, offset, owner, source, metadata }: Waiting): {
  key: string;
  body: string;
} {
  const body = [owner.owner.toString(), source?.gateway ?? null, source?.region ?? null, metadata];
  return { key: `${sortable(offset)}/${id}`, body: JSON.stringify(body) };
}

type WaitingBody = [string, string | null, string | null, SavedWaiting["metadata"]];

export function decodeWaiting(key: string, body: string): SavedWaiting {
  const slash = key.indexOf("/");
  const [owner, gateway, region, metadata] = JSON.parse(body) as WaitingBody;
  return {
    id: key.slice(slash + 1) as TxnId,
    offset: BigInt(key.slice(LENGTH_DIGITS, slash)) as Offset,
    owner: BigInt(owner),
    source: gateway === null || region === null ? null : { gateway, region },
    metadata,
  };
}

const LENGTH_DIGITS = 2;

/** An offset as a text that sorts like the number: with the number of its digits, at most 64, in front. */
export function sortable(offset: Offset): string {
  const digits = offset.toString();
  return `${String(digits.length).padStart(LENGTH_DIGITS, "0")}${digits}`;
}
