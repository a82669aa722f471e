// Safe answers of the PostgreSQL wire wait for marks, and nothing of their transactions is
// announced. While some wait, this gateway asks the tracker that sends it marks to look closely.
import { type Clock } from "@highwater/runtime";
import { type ServiceTransport } from "../deps.ts";

export interface MarkInterestOptions {
  readonly clock: Clock;
  readonly transport: Pick<ServiceTransport, "post">;
  readonly gateway: string;
  readonly region: string;
  /** Whose stream is open. */
  readonly connected: () => string | null;
}

/** The tracker looks closely for so long. */
export const INTEREST_MS = 250;
const SEND_TIMEOUT_MS = 5_000;

export class MarkInterest {
  readonly #options: MarkInterestOptions;
  readonly #body: string;
  #tracker: string | null = null;
  #renewAtMs = 0;

  constructor(options: MarkInterestOptions) {
    this.#options = options;
    const { gateway, region } = options;
    this.#body = JSON.stringify({ gateway, region, announcements: [], waitsForMs: INTEREST_MS });
  }

  /** Something waits now. Asks at most twice in the time that one question lasts. */
  renew(): void {
    const { clock, transport, connected } = this.#options;
    const nowMs = clock.monotonicMs();
    const tracker = connected();
    if (tracker === null || (tracker === this.#tracker && nowMs < this.#renewAtMs)) return;
    this.#tracker = tracker;
    this.#renewAtMs = nowMs + INTEREST_MS / 2;
    // A tracker that cannot be asked sends no marks either.
    transport.post(`${tracker}/internal/announcements`, this.#body, SEND_TIMEOUT_MS).catch(() => undefined);
  }
}
