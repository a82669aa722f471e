// Seals and opens the contents of kept transactions. Each owner has data keys of its own, which a
// key of the deployment wraps. Without the wrapped data key sealed contents cannot be opened, so an
// erasure destroys it. (docs/decisions/0226-contents-of-lost-transactions-are-kept.md)
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from "node:crypto";
import { type Clock } from "@highwater/runtime";
import { HEAD_BYTES, KEY_BYTES, NONCE_BYTES, SEALED_VERSION, splitSealed, TAG_BYTES } from "./sealed.ts";
import { type Schedule } from "./settings.ts";

/** What sealed contents are bound to: they open for no other transaction and no other place. */
export interface SealedAbout {
  readonly owner: bigint;
  readonly id: string;
  readonly epoch: string;
  readonly offset: string;
}

interface DataKey {
  readonly key: KeyObject;
  /** Version, number of the wrapping key, nonce, encrypted data key and tag. */
  readonly wrapped: Buffer;
  readonly untilMs: number;
  seals: number;
}

const CIPHER = "aes-256-gcm";
/** Random nonces of 96 bits stay unique far beyond this number under one key. */
const SEALS_MAX = 1_048_576;
const DATA_KEY_MS = 3_600_000;
/** The owner whose data key is the oldest gets a new one with its next transaction. */
const OWNERS_MAX = 10_000;

export function makeContentsKeys(
  config: { readonly deployment: string; readonly contentsKeys: Schedule | null },
  clock: Clock,
): ContentsKeys | null {
  const { deployment, contentsKeys: schedule } = config;
  return schedule === null ? null : new ContentsKeys(deployment, schedule, clock);
}

export class ContentsKeys {
  readonly #deployment: string;
  readonly #schedule: Schedule;
  readonly #clock: Pick<Clock, "wallMs" | "monotonicMs">;
  readonly #wrapping = new Map<number, KeyObject>();
  readonly #dataKeys = new Map<bigint, DataKey>();

  constructor(deployment: string, schedule: Schedule, clock: Pick<Clock, "wallMs" | "monotonicMs">) {
    this.#deployment = deployment;
    this.#schedule = schedule;
    this.#clock = clock;
  }

  /** Returns the wrapped data key, followed by the encrypted text. */
  seal(about: SealedAbout, text: string): Buffer {
    const dataKey = this.#dataKeyOf(about.owner);
    dataKey.seals++;
    return Buffer.concat([dataKey.wrapped, ...encrypt(dataKey.key, this.#bindingOf(about), text)]);
  }

  /** Throws if the contents were changed, or belong to another transaction or deployment. */
  open(about: SealedAbout, sealed: Uint8Array): string {
    const { wrapped, body } = splitSealed(sealed);
    const plain = decrypt(
      this.#wrappingKey(wrapped[1] ?? 0),
      this.#ownerBinding(about.owner),
      wrapped.subarray(HEAD_BYTES),
    );
    return decrypt(createSecretKey(plain), this.#bindingOf(about), body).toString("utf8");
  }

  #dataKeyOf(owner: bigint): DataKey {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#dataKeys.get(owner);
    if (known !== undefined && known.seals < SEALS_MAX && nowMs < known.untilMs) return known;
    const plain = randomBytes(KEY_BYTES);
    const kid = this.#signingKid();
    const wrapped = Buffer.concat([
      Buffer.from([SEALED_VERSION, kid]),
      ...encrypt(this.#wrappingKey(kid), this.#ownerBinding(owner), plain),
    ]);
    const key = { key: createSecretKey(plain), wrapped, untilMs: nowMs + DATA_KEY_MS, seals: 0 };
    this.#dataKeys.delete(owner);
    this.#dataKeys.set(owner, key);
    const [oldest] = this.#dataKeys.keys();
    if (this.#dataKeys.size > OWNERS_MAX && oldest !== undefined) this.#dataKeys.delete(oldest);
    return key;
  }

  /** The newest key that is valid already; before the first one is, the first. */
  #signingKid(): number {
    const nowMs = this.#clock.wallMs();
    const key = this.#schedule.findLast(({ validFromMs }) => validFromMs <= nowMs) ?? this.#schedule[0];
    if (key === undefined) throw new Error("a schedule has at least one key");
    return key.kid;
  }

  #wrappingKey(kid: number): KeyObject {
    const known = this.#wrapping.get(kid);
    if (known !== undefined) return known;
    const key = this.#schedule.find((each) => each.kid === kid);
    if (key === undefined) throw new Error(`HIGHWATER_CONTENTS_KEYS has no key ${String(kid)}`);
    const made = createSecretKey(
      Buffer.from(
        hkdfSync("sha256", key.secret, this.#deployment, `highwater contents ${String(kid)}`, KEY_BYTES),
      ),
    );
    this.#wrapping.set(kid, made);
    return made;
  }

  #ownerBinding(owner: bigint): Buffer {
    return Buffer.from(JSON.stringify([this.#deployment, String(owner)]));
  }

  #bindingOf({ owner, id, epoch, offset }: SealedAbout): Buffer {
    return Buffer.from(JSON.stringify([this.#deployment, String(owner), id, epoch, offset]));
  }
}

/** A key as bytes would be made into an object at each call, which costs more than the rest. */
function encrypt(key: KeyObject, binding: Uint8Array, plain: string | Uint8Array): Buffer[] {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce);
  cipher.setAAD(binding);
  const text = typeof plain === "string" ? cipher.update(plain, "utf8") : cipher.update(plain);
  return [nonce, text, cipher.final(), cipher.getAuthTag()];
}

function decrypt(key: KeyObject, binding: Uint8Array, encrypted: Uint8Array): Buffer {
  const end = encrypted.length - TAG_BYTES;
  const decipher = createDecipheriv(CIPHER, key, encrypted.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(binding);
  decipher.setAuthTag(encrypted.subarray(end));
  return Buffer.concat([decipher.update(encrypted.subarray(NONCE_BYTES, end)), decipher.final()]);
}
