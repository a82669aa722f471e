// What a client is made of: its options.
import { type TypeDecoders } from "./decode.ts";
import { type Observer } from "./observer.ts";
import { type FetchLike } from "./runtime.ts";
import { type Tuning } from "./tuning.ts";

/** Addresses of one region, where gateway and tracker have their own. */
export interface Endpoint {
  /** URL of the gateway, without the path of its calls. */
  readonly gateway: string;
  /** URL of the tracker, without the path of its calls. */
  readonly tracker: string;
}

/** What a client is made of: `url` or `endpoints`, and what should differ from the defaults. */
export interface HighwaterOptions {
  /** One address, or one for each region and the nearest first, that serves gateway and tracker alike. */
  readonly url?: string | readonly string[];
  /** Instead of `url`, where gateway and tracker have addresses of their own. Nearest first. */
  readonly endpoints?: readonly Endpoint[];
  /** The default level of `durable`, `onLost` and `verdicts`. Default: `region`. */
  readonly level?: string;
  /** Milliseconds for one attempt. Default: 10,000. */
  readonly requestTimeoutMs?: number;
  /**
   * Milliseconds for all attempts of one call together, where the call has no `timeout`. Default:
   * 30,000.
   */
  readonly totalTimeoutMs?: number;
  /** An API key or a JSON Web Token: sent to gateways and trackers as `Authorization: Bearer`. */
  readonly apiKey?: string;
  /** Sent with every request, beside the client's own. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * The function that sends the requests, for instance `batched()` of `@highwater/sdk/batch`.
   * Default: the platform's own.
   */
  readonly fetch?: FetchLike;
  /**
   * What types decode to, by OID, in the place of what the README says, also as elements of arrays; `raw` leaves
   * everything text. `result.values` has the text in any case.
   */
  readonly types?: TypeDecoders;
  /**
   * Numbers from 0 to 1 for the jitter of retries. Default: `Math.random`. Ids come from `crypto`.
   */
  readonly random?: () => number;
  /** Gets everything that the client does, as it happens: for logs, traces and metrics. */
  readonly observe?: Observer;
  /** @internal Delays and bounds that tests shorten. */
  readonly tuning?: Partial<Tuning>;
}
