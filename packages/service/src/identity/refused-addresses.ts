// Counts refused credentials by address. The service stops checking new credentials from an address
// that sends many bad ones. Credentials that it already knows stay valid from there.
import { HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";

/** So many at once, and so many a second in the long run. */
const BURST = 100;
const PER_SECOND = 10;
/** The ones that were refused longest ago make room. */
const ADDRESSES_KEPT = 10_000;

const IPV6_GROUPS = 8;
const NETWORK_GROUPS = 4;

export class RefusedAddresses {
  readonly #clock: Pick<Clock, "monotonicMs">;
  /** When each has its whole burst again. */
  readonly #freeAtMs = new Map<string, number>();

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#freeAtMs.size;
  }

  isOver(address: string): boolean {
    return this.#debtMs(address) > ((BURST - 1) * 1_000) / PER_SECOND;
  }

  add(address: string): void {
    const key = networkOf(address);
    const freeAtMs = this.#clock.monotonicMs() + this.#debtMs(address) + 1_000 / PER_SECOND;
    this.#freeAtMs.delete(key);
    for (const oldest of this.#freeAtMs.keys()) {
      if (this.#freeAtMs.size < ADDRESSES_KEPT) break;
      this.#freeAtMs.delete(oldest);
    }
    this.#freeAtMs.set(key, freeAtMs);
  }

  #debtMs(address: string): number {
    return Math.max(0, (this.#freeAtMs.get(networkOf(address)) ?? 0) - this.#clock.monotonicMs());
  }
}

/** Who has one address of IPv6 has its network of 64 bits. */
function networkOf(address: string): string {
  if (!address.includes(":") || address.includes(".")) return address;
  const [head = [], tail] = address
    .split("::")
    .map((part) => part.split(":").filter((group) => group !== ""));
  const left = tail === undefined ? 0 : IPV6_GROUPS - head.length - tail.length;
  const zeros = Array.from({ length: Math.max(0, left) }, () => "0");
  return [...head, ...zeros, ...(tail ?? [])].slice(0, NETWORK_GROUPS).join(":");
}

export function tooManyRefused(): HighwaterError {
  return new HighwaterError("rate_limited", {
    detail: `This address sent too many refused credentials: more than ${String(BURST)} at once or ${String(PER_SECOND)} a second. Retry later.`,
    limit: { name: "refusedCredentialsPerSecond", value: PER_SECOND },
    retryAfterMs: 1_000,
  });
}
