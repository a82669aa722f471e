// Encodes entries for the ledger's file: JSON in which offsets are texts and accounts are names.
import { type EpochId, type Offset, ownedName, type TxnId } from "@highwater/protocol";
import {
  type Departed,
  type LedgerEntry,
  type OwnersDeparted,
  type LogPosition,
  type SavedEntry,
  type SavedWaiting,
  type Waiting,
} from "../core/index.ts";

interface SavedPosition {
  readonly epoch: EpochId;
  readonly offset: string;
}

/**
 * The same with offsets as texts. Metadata are a client's: as a text of their own, whatever they
 * say stays theirs.
 */
type EntryBody = Omit<SavedEntry, "origin" | "state" | "owner" | "metadata" | "atRisk"> & {
  readonly origin: SavedPosition | null;
  readonly state: Exclude<LedgerEntry["state"], { kind: "pending" | "absent" }> | PositionedState;
  readonly owner: string;
  readonly metadata: string | null;
  readonly atRisk?: string;
};

type PositionedState =
  | { readonly kind: "pending"; readonly position: SavedPosition }
  | (Omit<Extract<LedgerEntry["state"], { kind: "absent" }>, "asOf"> & { readonly asOf: SavedPosition });

export function encodeEntry(entry: LedgerEntry): string {
  const { key, id, attempt, kind, announced, origin, reached, atMs, source, metadata, hasOtherTokens } =
    entry;
  const { atRisk, announcers, endsWithinMs } = entry;
  const body: EntryBody = {
    key,
    id,
    attempt,
    kind,
    announced,
    reached,
    atMs,
    announcers,
    endsWithinMs,
    hasOtherTokens,
    origin: origin === null ? null : savedPosition(origin),
    state: savedState(entry.state),
    owner: entry.owner.owner.toString(),
    source: source === null ? null : { gateway: source.gateway, region: source.region },
    metadata: metadata === null ? null : JSON.stringify(metadata),
    ...(atRisk !== null && { atRisk }),
  };
  return JSON.stringify(body);
}

function savedPosition({ epoch, offset }: LogPosition): SavedPosition {
  return { epoch, offset: offset.toString() };
}

function savedState(state: LedgerEntry["state"]): EntryBody["state"] {
  switch (state.kind) {
    case "pending":
      return { kind: "pending", position: savedPosition(state.position) };
    case "absent":
      return { ...state, asOf: savedPosition(state.asOf) };
    case "lost":
      return { ...state, asOf: null };
    case "asked":
      return { kind: "unproven" };
    default:
      return state;
  }
}

export function decodeEntry(text: string): SavedEntry {
  const body = JSON.parse(text) as EntryBody;
  if (!Array.isArray(body.announcers))
    throw new Error("the ledger is of an earlier build; start the tracker with a new file (TRACKER_LEDGER)");
  return {
    ...body,
    origin: body.origin === null ? null : readPosition(body.origin),
    state: readState(body.state),
    owner: BigInt(body.owner),
    atRisk: body.atRisk ?? null,
    metadata: body.metadata === null ? null : (JSON.parse(body.metadata) as LedgerEntry["metadata"]),
  };
}

function readPosition({ epoch, offset }: SavedPosition): LogPosition {
  return { epoch, offset: BigInt(offset) as Offset };
}

function readState(state: EntryBody["state"]): LedgerEntry["state"] {
  if (state.kind === "pending") return { kind: "pending", position: readPosition(state.position) };
  return state.kind === "absent" ? { ...state, asOf: readPosition(state.asOf) } : state;
}

/** `{ key, body }`: keys sort as their offsets do. */
export function encodeWaiting({ id, offset, owner, source, metadata, atRisk }: Waiting): {
  key: string;
  body: string;
} {
  const body = [owner.owner.toString(), source?.gateway ?? null, source?.region ?? null, metadata];
  if (atRisk !== null) body.push(atRisk);
  const name = ownedName({ id, owner: owner.owner });
  return { key: `${sortable(offset)}/${name}`, body: JSON.stringify(body) };
}

interface DepartedBody {
  readonly epoch: EpochId;
  readonly from: string;
  readonly to: string;
  readonly owners: readonly (readonly [string, OwnersDeparted])[];
}

export function encodeDeparted({ epoch, from, to, owners }: Departed): string {
  const named = [...owners].map(([owner, about]) => [owner.toString(), about] as const);
  const body: DepartedBody = { epoch, from: from.toString(), to: to.toString(), owners: named };
  return JSON.stringify(body);
}

export function decodeDeparted(number: string, text: string): Departed {
  const { epoch, from, to, owners } = JSON.parse(text) as DepartedBody;
  return {
    number: Number(number),
    epoch,
    from: BigInt(from) as Offset,
    to: BigInt(to) as Offset,
    transactions: owners.reduce((sum, [, about]) => sum + about.transactions, 0),
    owners: new Map(owners.map(([owner, about]) => [BigInt(owner), about])),
  };
}

type WaitingBody = [string, string | null, string | null, SavedWaiting["metadata"], string?];

export function decodeWaiting(key: string, body: string): SavedWaiting {
  const slash = key.indexOf("/");
  const [owner, gateway, region, metadata, atRisk = null] = JSON.parse(body) as WaitingBody;
  return {
    id: key.slice(slash + 1, slash + 1 + UUID_CHARS) as TxnId,
    offset: BigInt(unsortable(key.slice(0, slash))) as Offset,
    owner: BigInt(owner),
    source: gateway === null || region === null ? null : { gateway, region },
    metadata,
    atRisk,
  };
}

const LENGTH_DIGITS = 2;
const UUID_CHARS = 36;

/**
 * An offset as a text that sorts like the number: with the number of its digits, at most 64, in
 * front.
 */
export function sortable(offset: Offset | string): string {
  const digits = offset.toString();
  return `${String(digits.length).padStart(LENGTH_DIGITS, "0")}${digits}`;
}

/** The digits of such a text. */
export function unsortable(text: string): string {
  return text.slice(LENGTH_DIGITS);
}
