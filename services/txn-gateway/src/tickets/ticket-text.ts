// A ticket's text: `hwt1_` and base64url of key number, id, epoch, digest, deadline, owner, and the
// MAC of all of that. It proves that a gateway of the deployment announced the transaction for this
// owner. The receipt's tag is not in it: a gateway computes that anew.
import { type EpochId, formatUuid, HighwaterError, parseTxnId, type TxnId } from "@highwater/protocol";
import { type DeploymentKeys, MAC_BYTES } from "@highwater/service";

export interface TicketContent {
  readonly id: TxnId;
  /** The transaction commits in this epoch, or not at all. */
  readonly epoch: EpochId;
  /** Of its receipt: no other ticket's is the same. */
  readonly digest: bigint;
  /** By the database's clock. Trackers may settle the id from then on. Whole milliseconds. */
  readonly deadlineMs: number;
  readonly owner: bigint;
}

const PREFIX = "hwt1_";
const UUID_BYTES = 16;
const DIGEST_BYTES = 8;
const DEADLINE_BYTES = 6;
const OWNER_BYTES = 16;
const SIGNED_BYTES = 1 + 2 * UUID_BYTES + DIGEST_BYTES + DEADLINE_BYTES + OWNER_BYTES;

type Keys = Pick<DeploymentKeys, "sign" | "verify">;

export function encodeTicket(content: TicketContent, keys: Keys): string {
  const body = bodyOf(content);
  const { kid, mac } = keys.sign("ticket", body);
  return PREFIX + Buffer.concat([Buffer.from([kid]), body, mac]).toString("base64url");
}

/** Errors: `invalid_token`. Nothing of it is looked at before its MAC has proved right. */
export function openTicket(text: string, keys: Keys): TicketContent {
  const encoded = text.slice(PREFIX.length);
  const bytes = Buffer.from(encoded, "base64url");
  const [kid = 0] = bytes;
  const body = bytes.subarray(1, SIGNED_BYTES);
  // The decoder skips characters that are not of the encoding; with them a ticket would have other
  // spellings.
  const isWhole =
    text.startsWith(PREFIX) &&
    bytes.length === SIGNED_BYTES + MAC_BYTES &&
    bytes.toString("base64url") === encoded;
  const content =
    isWhole && keys.verify("ticket", kid, body, bytes.subarray(SIGNED_BYTES)) ? contentOf(body) : null;
  if (content === null)
    throw new HighwaterError("invalid_token", { detail: "`ticket` is not a ticket of this deployment." });
  return content;
}

function bodyOf({ id, epoch, digest, deadlineMs, owner }: TicketContent): Buffer {
  const times = Buffer.alloc(DIGEST_BYTES + DEADLINE_BYTES);
  times.writeBigInt64BE(digest);
  times.writeUIntBE(deadlineMs, DIGEST_BYTES, DEADLINE_BYTES);
  const whose = owner.toString(16).padStart(2 * OWNER_BYTES, "0");
  const uuids = `${id}${epoch}`.replaceAll("-", "");
  return Buffer.concat([Buffer.from(uuids, "hex"), times, Buffer.from(whose, "hex")]);
}

function contentOf(body: Buffer): TicketContent | null {
  let at = 0;
  const take = (length: number): Buffer => body.subarray(at, (at += length));
  const id = parseTxnId(formatUuid(take(UUID_BYTES)));
  const epoch = formatUuid(take(UUID_BYTES)) as EpochId;
  const digest = take(DIGEST_BYTES).readBigInt64BE();
  const deadlineMs = take(DEADLINE_BYTES).readUIntBE(0, DEADLINE_BYTES);
  const owner = BigInt(`0x${take(OWNER_BYTES).toString("hex")}`);
  return id === undefined ? null : { id, epoch, digest, deadlineMs, owner };
}
