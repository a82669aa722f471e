// Counts refused credentials by address. When an address has sent many bad ones, the service stops
// checking new credentials from it and still accepts those that it has verified before.
import { HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";

/** Refusals at once, and refusals per second in the long run. */
const BURST = 100;
const PER_SECOND = 10;
/** Beyond that, the addresses that were refused longest ago are forgotten. */
const ADDRESSES_KEPT = 10_000;

const IPV6_GROUPS = 8;
const NETWORK_GROUPS = 4;

export class RefusedAddresses {
  readonly #clock: Pick<Clock, "monotonicMs">;
  /** By address: when its whole burst is available again. */
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

/** A holder of one IPv6 address usually controls its /64 network. */
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
