// The options of a client.
import { type TypeDecoders } from "./decode.ts";
import { type Observer } from "./observer.ts";
import { type FetchLike } from "./runtime.ts";
import { type Tuning } from "./tuning.ts";

/** Addresses of one region whose gateway and tracker have separate URLs. */
export interface Endpoint {
  /** Base URL of the gateway: the part before `/v1`. */
  readonly gateway: string;
  /** Base URL of the tracker: the part before `/v1`. */
  readonly tracker: string;
}

/** Options of a client: `url` or `endpoints`, and settings that differ from the defaults. */
export interface HighwaterOptions {
  /**
   * Base URL that serves both gateway and tracker, or one URL per region, nearest first. Default:
   * the environment variable `HIGHWATER_URL`, with commas between several.
   */
  readonly url?: string | readonly string[];
  /**
   * Addresses of each region, nearest first. Use them instead of `url` if gateway and tracker have
   * separate addresses.
   */
  readonly endpoints?: readonly Endpoint[];
  /** Default level of `durable`, `onLost` and `verdicts`. Default: `region`. */
  readonly level?: string;
  /** Time limit of one attempt, in milliseconds. Default: 10,000. */
  readonly requestTimeoutMs?: number;
  /**
   * Time limit of a call with all its attempts, in milliseconds. Used if the call sets no
   * `timeoutMs`. Default: 30,000.
   */
  readonly totalTimeoutMs?: number;
  /**
   * API key or JSON Web Token, sent to gateways and trackers as `Authorization: Bearer`. Default:
   * the environment variable `HIGHWATER_API_KEY`.
   */
  readonly apiKey?: string;
  /** Headers sent with every request, in addition to the client's own. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Whether one-shot transactions of this client that are under way at the same time share
   * requests. Each keeps its own outcome and gets its answer as soon as it ends. Default: true.
   */
  readonly shareRequests?: boolean;
  /** Function that sends the requests. Default: the platform's `fetch`. */
  readonly fetch?: FetchLike;
  /**
   * Decoders by type OID. They replace the built-in ones, which the README lists, also for array
   * elements. With `raw`, every value stays text. `result.values` has the text in any case.
   */
  readonly types?: TypeDecoders;
  /**
   * Observer that receives every event of the client as it happens, for logs, traces and metrics.
   */
  readonly observe?: Observer;
  /** @internal Delays and limits that tests shorten. */
  readonly tuning?: Partial<Tuning>;
}
