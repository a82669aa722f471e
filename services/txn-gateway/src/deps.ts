// What the gateway needs from the world: time, chance, the log, the store and the way to other
// services.
import { type Clock } from "@highwater/runtime";
import { type Log, type TopologyFile, type Tracer } from "@highwater/service";
import { type ContentsStore, type KeyReader, type Store } from "@highwater/store";

interface Rng {
  /** Evenly distributed in [0, 1). */
  random(): number;
}

export interface HttpReply {
  readonly status: number;
  readonly body: string;
}

export interface HttpStream {
  readonly status: number;
  readonly chunks: AsyncIterable<Uint8Array>;
}

/**
 * The way to the trackers and to the other gateways. Every call rejects when the service cannot be
 * reached or asked in time.
 */
export interface ServiceTransport {
  post(url: string, body: string, timeoutMs: number): Promise<HttpReply>;
  /**
   * Resolves at the answer's head; `chunks` ends or throws when the connection does, or when the
   * signal aborts.
   */
  open(url: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<HttpStream>;
  close(): void;
}

export interface Deps {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly log: Log;
  readonly store: Store;
  readonly transport: ServiceTransport;
  /** Opens the store of the API keys; wanted only where keys are accepted. */
  readonly keys: () => KeyReader;
  /** Opens the store of what was lost; wanted only where it is brought back. */
  readonly contentsStore: () => ContentsStore;
  /** Where requests are traced. */
  readonly tracer?: Tracer | undefined;
  /** Where levels may change while the gateway runs. */
  readonly topologyFile?: TopologyFile | undefined;
}
