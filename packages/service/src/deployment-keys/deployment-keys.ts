// The deployment's keys: they make tags of receipts, and MACs of what services hand out and later
// get back. Each purpose has its own keys, derived from the schedule's secrets, so a MAC for one
// purpose is worthless for another.
import { hkdfSync, timingSafeEqual } from "node:crypto";
import {
  type TokenSigner,
  type TokenVerifier,
  type TxnId,
  txnTimestampMs,
  uuidOfHex,
} from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { Hmac } from "./hmac.ts";
import { type DeploymentKey, type Schedule } from "./settings.ts";

/** `check`: values by which services compare their schedules. */
export type Purpose = "token" | "session" | "ticket" | "check";

export interface Signature {
  readonly kid: number;
  /** 16 bytes. */
  readonly mac: Buffer;
}

export interface DeploymentKeysOptions {
  readonly deployment: string;
  readonly schedule: Schedule;
  /** The time that selects the signing key. */
  readonly wallMs: () => number;
}

/** The keys in a service's settings. */
export function makeDeploymentKeys(
  config: { readonly deployment: string; readonly deploymentKeys: Schedule },
  clock: Clock,
): DeploymentKeys {
  const { deployment, deploymentKeys: schedule } = config;
  return new DeploymentKeys({ deployment, schedule, wallMs: () => clock.wallMs() });
}

export const MAC_BYTES = 16;
const KEY_BYTES = 32;

export class DeploymentKeys implements TokenSigner, TokenVerifier {
  readonly schedule: Schedule;
  readonly #deployment: string;
  readonly #deploymentHex: string;
  readonly #wallMs: () => number;
  readonly #derived = new Map<string, Hmac>();

  constructor({ deployment, schedule, wallMs }: DeploymentKeysOptions) {
    if (schedule.length === 0) throw new Error("a schedule has at least one key");
    this.#deployment = deployment;
    this.#deploymentHex = Buffer.from(deployment).toString("hex");
    this.schedule = [...schedule].sort((a, b) => a.validFromMs - b.validFromMs);
    this.#wallMs = wallMs;
  }

  /**
   * Tag of the receipt of this owner's transaction, as the text of a UUID: 128 bits that only the
   * deployment's services can make. The time in the id selects the key, so that every service makes
   * the same tag at any time.
   */
  receiptTag(owner: bigint, id: TxnId): string {
    const key = this.#derive(this.#keyAt(txnTimestampMs(id)), "receipt");
    const whose = BigInt.asUintN(128, owner).toString(16).padStart(32, "0");
    return uuidOfHex(key.of(Buffer.from(this.#deploymentHex + whose + id.replaceAll("-", ""), "hex")), 0);
  }

  /** Number of the key that signs now: the newest one that is valid already. */
  get signingKid(): number {
    return this.#keyAt(this.#wallMs()).kid;
  }

  sign(purpose: Purpose, bytes: Uint8Array | string, kid: number = this.signingKid): Signature {
    const mac = this.#mac(purpose, kid, bytes);
    if (mac === undefined) throw new Error(`the schedule has no key ${String(kid)}`);
    return { kid, mac };
  }

  /**
   * True when this deployment made the MAC. Every key of the schedule counts, even one that is not
   * valid yet.
   */
  verify(purpose: Purpose, kid: number, bytes: Uint8Array | string, mac: Uint8Array): boolean {
    if (mac.length !== MAC_BYTES) return false;
    const expected = this.#mac(purpose, kid, bytes);
    return expected !== undefined && timingSafeEqual(expected, mac);
  }

  tokenMac(kid: number, signed: Uint8Array): Buffer {
    return this.sign("token", signed, kid).mac;
  }

  isTokenMac(kid: number, signed: Uint8Array, mac: Uint8Array): boolean {
    return this.verify("token", kid, signed, mac);
  }

  #mac(purpose: Purpose, kid: number, bytes: Uint8Array | string): Buffer | undefined {
    const key = this.schedule.find((each) => each.kid === kid);
    if (key === undefined) return undefined;
    return Buffer.from(
      this.#derive(key, purpose)
        .of(bytes)
        .slice(0, 2 * MAC_BYTES),
      "hex",
    );
  }

  /**
   * For times before the oldest key, the oldest key. Its predecessor was dropped once the
   * predecessor's ids had expired.
   */
  #keyAt(ms: number): DeploymentKey {
    const key = this.schedule.findLast(({ validFromMs }) => validFromMs <= ms) ?? this.schedule[0];
    if (key === undefined) throw new Error("a schedule has at least one key");
    return key;
  }

  #derive({ kid, secret }: DeploymentKey, purpose: Purpose | "receipt"): Hmac {
    const name = `${purpose}.${String(kid)}`;
    let key = this.#derived.get(name);
    if (key === undefined) {
      const info = `highwater ${purpose} ${String(kid)}`;
      key = new Hmac(new Uint8Array(hkdfSync("sha256", secret, this.#deployment, info, KEY_BYTES)));
      this.#derived.set(name, key);
    }
    return key;
  }
}
