// Decides which sessions may be ended because they hold an id that must be settled: those that this
// process was asked to end, and those whose transaction has exceeded every limit. Owns the list of
// the former, and the rows with the limits.
import { randomUUID } from "node:crypto";
import { type EpochId, HighwaterError } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type ReceiptKey } from "../port.ts";
import { type Channel } from "./channel.ts";
import { REGISTER_LIMIT } from "./sql.ts";

/**
 * More than can be in flight at a time. The oldest are forgotten, and end when their time is over.
 */
const MAX_GIVEN_UP = 10_000;
/**
 * A row counts for its limit and a day after it was last written, so it is written again from time
 * to time.
 */
const REGISTER_AGAIN_MS = 3_600_000;

/** Silent sessions, or sessions that their own client wants ended, by the id that they may hold. */
export class GivenUp {
  /** By id and tag. */
  readonly #holders = new Map<string, readonly string[]>();

  add(key: ReceiptKey, holder: string): void {
    const name = nameOf(key);
    const known = this.#holders.get(name) ?? [];
    if (known.includes(holder)) return;
    this.#holders.delete(name);
    this.#holders.set(name, [...known, holder]);
    if (this.#holders.size <= MAX_GIVEN_UP) return;
    const [oldest] = this.#holders.keys();
    if (oldest !== undefined) this.#holders.delete(oldest);
  }

  of(keys: readonly ReceiptKey[]): string[] {
    if (this.#holders.size === 0) return [];
    return keys.flatMap((key) => this.#holders.get(nameOf(key)) ?? []);
  }

  settled(key: ReceiptKey): void {
    this.#holders.delete(nameOf(key));
  }
}

function nameOf({ id, tag }: ReceiptKey): string {
  return `${id}/${tag}`;
}

/**
 * Records on the node how long this process's transactions may take, before the first of them
 * begins there.
 */
export class TransactionLimits {
  readonly #process = randomUUID();
  readonly #name: string;
  readonly #clock: Clock;
  #known: { readonly epoch: EpochId; readonly limitMs: number; readonly atMs: number } | null = null;

  constructor(name: string, clock: Clock) {
    this.#name = name;
    this.#clock = clock;
  }

  /**
   * Registers the limit. Null: the node has it already. Errors: `primary_unavailable`; nothing was
   * applied.
   */
  register(channel: Channel, epoch: EpochId, limitMs: number): Promise<void> | null {
    const known = this.#known?.epoch === epoch ? this.#known : null;
    if (known !== null && limitMs <= known.limitMs) {
      if (this.#clock.monotonicMs() - known.atMs < REGISTER_AGAIN_MS) return null;
      // The old row counts for long enough, so no transaction need wait.
      this.#known = { ...known, atMs: this.#clock.monotonicMs() };
      this.#register(channel, known).catch(() => undefined);
      return null;
    }
    return this.#register(channel, { epoch, limitMs: Math.max(limitMs, known?.limitMs ?? 0) });
  }

  async #register(
    channel: Channel,
    limit: { readonly epoch: EpochId; readonly limitMs: number },
  ): Promise<void> {
    const values = [this.#process, this.#name, Math.ceil(limit.limitMs)];
    try {
      await channel.run((client) => client.query(REGISTER_LIMIT, values));
    } catch (cause) {
      throw new HighwaterError("primary_unavailable", { retryAfterMs: 1_000 }, { cause });
    }
    const known = this.#known;
    if (known?.epoch === limit.epoch && known.limitMs > limit.limitMs) return;
    this.#known = { ...limit, atMs: this.#clock.monotonicMs() };
  }

  forget(): void {
    this.#known = null;
  }
}
