// The header that pins an interactive transaction to its gateway: `<gateway>.<begin>.<mac>`. A
// proxy routes on its first part. The second says which begin it belongs to. The third proves that
// a gateway of the deployment wrote it for this very principal, so the header is the proof that its
// caller began the transaction. (docs/decisions/0088-what-proves-a-begin.md)
import { randomBytes } from "node:crypto";
import {
  type EpochId,
  formatUuid,
  HighwaterError,
  type Outcome,
  parseTxnId,
  type TxnId,
} from "@highwater/protocol";
import { type DeploymentKeys, type Principal } from "@highwater/service";
import { RETRY_MS } from "../retry.ts";

/**
 * Of every answer to a call of an interactive transaction; the client sends it back with the next.
 */
export const SESSION_HEADER = "highwater-session";

/** What one begin is known by. */
export interface Begun {
  readonly id: TxnId;
  readonly access: "read" | "write";
  readonly epoch: EpochId;
  /** Sixteen hexadecimal digits of what the begin asked for. */
  readonly digest: string;
  /**
   * The transaction has ended by then, by the database's clock, or its gateway is gone. Whole
   * milliseconds.
   */
  readonly deadlineMs: number;
  /** The database session that has it, as the store names it. */
  readonly holder: string;
}

export interface Pinned extends Begun {
  readonly gateway: string;
  /** The gateway's process: another one may bear its name later. */
  readonly boot: string;
}

const BOOT_BYTES = 8;
const UUID_BYTES = 16;
const DIGEST_BYTES = 8;
const DEADLINE_BYTES = 6;
/** Everything in front of the holder, which takes what is left. */
const FIXED_BYTES = BOOT_BYTES + 2 * UUID_BYTES + DIGEST_BYTES + DEADLINE_BYTES + 1;
const ACCESSES = ["read", "write"] as const;

export class SessionHeaders {
  readonly #gateway: string;
  readonly #keys: DeploymentKeys;
  readonly #boot = randomBytes(BOOT_BYTES);

  constructor(gateway: string, keys: DeploymentKeys) {
    this.#gateway = gateway;
    this.#keys = keys;
  }

  of(begun: Begun, principal: Principal): string {
    const pinned = `${this.#gateway}.${encode(this.#boot, begun)}`;
    const { kid, mac } = this.#keys.sign("session", signedText(pinned, principal));
    return `${pinned}.${Buffer.concat([Buffer.from([kid]), mac]).toString("base64url")}`;
  }

  /**
   * What the header says, or null when no gateway of the deployment wrote it for this principal.
   */
  read(header: string, principal: Principal): Pinned | null {
    const macAt = header.lastIndexOf(".");
    const pinned = header.slice(0, Math.max(0, macAt));
    const signature = Buffer.from(header.slice(macAt + 1), "base64url");
    // The decoder skips characters that are not of the encoding; with them a header would have
    // other spellings.
    const [kid] = signature;
    if (kid === undefined || signature.toString("base64url") !== header.slice(macAt + 1)) return null;
    if (!this.#keys.verify("session", kid, signedText(pinned, principal), signature.subarray(1))) return null;
    const beginAt = pinned.lastIndexOf(".");
    const begun = decode(Buffer.from(pinned.slice(beginAt + 1), "base64url"));
    return begun === null || beginAt < 0 ? null : { gateway: pinned.slice(0, beginAt), ...begun };
  }

  isOurs({ gateway }: Pinned): boolean {
    return gateway === this.#gateway;
  }
}

function signedText(pinned: string, principal: Principal): string {
  return JSON.stringify([pinned, ...identityOf(principal)]);
}

/** With another role or another access than at the begin it is another principal. */
function identityOf({ owner, id, role, scopes }: Principal): readonly (string | null)[] {
  return [owner.toString(10), id, role, scopes.has("write") ? "write" : "read"];
}

export function isSamePrincipal(one: Principal, other: Principal): boolean {
  return JSON.stringify(identityOf(one)) === JSON.stringify(identityOf(other));
}

function encode(boot: Buffer, { id, epoch, digest, deadlineMs, access, holder }: Begun): string {
  const deadline = Buffer.alloc(DEADLINE_BYTES);
  deadline.writeUIntBE(Math.ceil(deadlineMs), 0, DEADLINE_BYTES);
  const parts = [boot, uuidBytes(id), uuidBytes(epoch), Buffer.from(digest, "hex"), deadline];
  const kind = Buffer.from([ACCESSES.indexOf(access)]);
  return Buffer.concat([...parts, kind, Buffer.from(holder)]).toString("base64url");
}

function decode(bytes: Buffer): Omit<Pinned, "gateway"> | null {
  if (bytes.length < FIXED_BYTES) return null;
  let at = 0;
  const take = (length: number): Buffer => bytes.subarray(at, (at += length));
  const boot = take(BOOT_BYTES).toString("base64url");
  const id = parseTxnId(formatUuid(take(UUID_BYTES)));
  const epoch = formatUuid(take(UUID_BYTES)) as EpochId;
  const digest = take(DIGEST_BYTES).toString("hex");
  const deadlineMs = take(DEADLINE_BYTES).readUIntBE(0, DEADLINE_BYTES);
  const access = ACCESSES[take(1).readUInt8(0)];
  const holder = bytes.subarray(at).toString();
  if (id === undefined || access === undefined) return null;
  return { boot, id, epoch, digest, deadlineMs, access, holder };
}

function uuidBytes(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll("-", ""), "hex");
}

export function wrongGateway({ gateway, id }: Pinned, outcome?: Outcome): HighwaterError {
  const detail = `Gateway ${gateway} has the transaction, and this is another one; send the call to ${gateway}.`;
  const retryAfterMs = RETRY_MS.atOnce;
  return new HighwaterError("wrong_gateway", { detail, transactionId: id, outcome, retryAfterMs });
}
