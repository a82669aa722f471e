// Brings a CancelRequest to its session: at this gateway, else at the other gateway that has it,
// else at the server. A cancel is a connection of its own, so a load balancer may send it to any
// gateway. As in PostgreSQL, the whole key is the only credential.
import { timingSafeEqual } from "node:crypto";
import { type Clock } from "@highwater/runtime";
import { RefusedAddresses } from "@highwater/service";
import { type Metrics } from "../metrics.ts";

export interface CancelledSession {
  /** The session's server. */
  readonly node: string;
  /** True when it released a held answer or a waiting statement. */
  cancel(): boolean;
}

export interface CancelsOptions {
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly metrics: Pick<Metrics, "refusals">;
  /** Whether another gateway has the session. It has then been cancelled there. */
  readonly askPeers: (key: Buffer) => Promise<boolean>;
  readonly toServer: (node: string, key: Buffer) => Promise<void>;
}

/** Of the process's number. The secret follows. */
const PROCESS_BYTES = 4;
/** Process and secret. Protocol 3.0 has secrets of 4 bytes, and 3.2 of up to 256. */
const KEY_BYTES_MIN = 8;
const KEY_BYTES_MAX = 260;
/** Cancels that look for their sessions elsewhere at a time. */
const SEARCHES_MAX = 64;

interface Entry {
  readonly key: Buffer;
  readonly session: CancelledSession;
}

export class Cancels {
  readonly #options: CancelsOptions;
  /** By the process's number, which is unique at one server only. */
  readonly #sessions = new Map<number, Entry[]>();
  /** Addresses whose cancels found no session. Each of those takes work elsewhere. */
  readonly #missed: RefusedAddresses;
  #searches = 0;

  constructor(options: CancelsOptions) {
    this.#options = options;
    this.#missed = new RefusedAddresses(options.clock);
  }

  /** Returns a function that removes the session. */
  add(key: Buffer, session: CancelledSession): () => void {
    if (!isKey(key)) return () => undefined;
    const process = processOf(key);
    const entry = { key, session };
    this.#sessions.set(process, [...(this.#sessions.get(process) ?? []), entry]);
    return () => {
      const left = (this.#sessions.get(process) ?? []).filter((each) => each !== entry);
      if (left.length > 0) this.#sessions.set(process, left);
      else this.#sessions.delete(process);
    };
  }

  /**
   * A cancel that another gateway has sent on. It goes no further than to this gateway's sessions
   * and their servers. True: the session is here.
   */
  async here(key: Buffer): Promise<boolean> {
    const session = this.#find(key);
    if (session === undefined) return false;
    if (!session.cancel()) await this.#options.toServer(session.node, key);
    return true;
  }

  /**
   * A client's cancel. `fallback`: the server that gets it if no gateway that answers has the
   * session.
   */
  async anywhere(key: Buffer, client: { address: string; fallback: string | undefined }): Promise<void> {
    if (!isKey(key) || (await this.here(key))) return;
    const { metrics, askPeers, toServer } = this.#options;
    const { address, fallback } = client;
    if (this.#missed.isOver(address)) {
      metrics.refusals.add("rate_limited");
      return;
    }
    if (this.#searches >= SEARCHES_MAX) {
      metrics.refusals.add("overloaded");
      return;
    }
    this.#searches++;
    try {
      if (await askPeers(key)) return;
      this.#missed.add(address);
      if (fallback !== undefined) await toServer(fallback, key);
    } finally {
      this.#searches--;
    }
  }

  /** Compares in a time that reveals nothing about a partial match. */
  #find(key: Buffer): CancelledSession | undefined {
    if (!isKey(key)) return undefined;
    const entries = this.#sessions.get(processOf(key)) ?? [];
    return entries.find((entry) => entry.key.length === key.length && timingSafeEqual(entry.key, key))
      ?.session;
  }
}

function isKey(key: Buffer): boolean {
  return key.length >= KEY_BYTES_MIN && key.length <= KEY_BYTES_MAX;
}

function processOf(key: Buffer): number {
  return key.subarray(0, PROCESS_BYTES).readUInt32BE(0);
}
