// The header that pins an interactive transaction to its gateway: `<gateway>.<id>.<mac>`. A proxy routes on its first part;
// only a gateway that knows the secret can make one, so nobody gets at a transaction by guessing its id; and it is worth
// nothing to anybody but the transaction's owner.
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { parseTxnId, type TxnId } from "@highwater/protocol";

/** Of every answer to a call of an interactive transaction; the client sends it back with the next. */
export const SESSION_HEADER = "highwater-session";

const MAC_BYTES = 18;

export interface Pinned {
  readonly gateway: string;
  readonly id: TxnId;
}

export class SessionHeaders {
  readonly #gateway: string;
  readonly #secret: string | Buffer;

  /** `secret` null: one of this process alone, so that a header does not outlive it. */
  constructor(gateway: string, secret: string | null) {
    this.#gateway = gateway;
    this.#secret = secret ?? randomBytes(32);
  }

  of(id: TxnId, owner: bigint): string {
    const pinned = `${this.#gateway}.${id}`;
    return `${pinned}.${this.#mac(pinned, owner).toString("base64url")}`;
  }

  /** What the header says, or null when no gateway with this secret wrote it for this owner. */
  read(header: string, owner: bigint): Pinned | null {
    const macAt = header.lastIndexOf(".");
    const pinned = header.slice(0, Math.max(0, macAt));
    const mac = Buffer.from(header.slice(macAt + 1), "base64url");
    // Characters that are none of the encoding are passed over; with them a header would have other spellings.
    const expected = this.#mac(pinned, owner);
    if (mac.length !== expected.length || mac.toString("base64url") !== header.slice(macAt + 1)) return null;
    if (!timingSafeEqual(mac, expected)) return null;
    const idAt = pinned.lastIndexOf(".");
    const id = parseTxnId(pinned.slice(idAt + 1));
    return id === undefined || idAt < 0 ? null : { gateway: pinned.slice(0, idAt), id };
  }

  isOurs({ gateway }: Pinned): boolean {
    return gateway === this.#gateway;
  }

  #mac(pinned: string, owner: bigint): Buffer {
    const signed = `${pinned}.${owner.toString(10)}`;
    return createHmac("sha256", this.#secret).update(signed).digest().subarray(0, MAC_BYTES);
  }
}
