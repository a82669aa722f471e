// What a client is made of: its options, checked, and its endpoints.
import { type TypeDecoders } from "./decode.ts";
import { failure } from "./errors.ts";
import { type Observer } from "./observer.ts";
import { type FetchLike } from "./runtime.ts";
import { type Tuning } from "./tuning.ts";

export interface Endpoint {
  readonly gateway: string;
  readonly tracker: string;
}

export interface HighwaterOptions {
  /** One address, or one for each region and the nearest first, that serves gateway and tracker alike. */
  readonly url?: string | readonly string[];
  /** Instead of `url`, where gateway and tracker have addresses of their own. Nearest first. */
  readonly endpoints?: readonly Endpoint[];
  /** The level that `durable`, `onLost` and `verdicts` mean unless told otherwise: `region` unless given. */
  readonly level?: string;
  /** For one attempt. */
  readonly requestTimeoutMs?: number;
  /** For all attempts of one call together. */
  readonly totalTimeoutMs?: number;
  /** An API key or a JSON Web Token: sent to gateways and trackers as `Authorization: Bearer`. */
  readonly apiKey?: string;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly fetch?: FetchLike;
  /**
   * What types decode to, by OID, in the place of what the README says, also as elements of arrays; `raw` leaves
   * everything text. `result.values` has the text in any case.
   */
  readonly types?: TypeDecoders;
  /** For the jitter of retries. Ids come from `crypto`. */
  readonly random?: () => number;
  /** Hears of everything that the client does, as it happens: for logs, traces and metrics. */
  readonly observe?: Observer;
  /** @internal Delays and bounds that tests shorten. */
  readonly tuning?: Partial<Tuning>;
}

export function endpointsOf({ url, endpoints }: HighwaterOptions): Endpoint[] {
  const urls = typeof url === "string" ? [url] : url;
  const list = endpoints ?? urls?.map((each) => ({ gateway: each, tracker: each })) ?? [];
  if ((url && endpoints) || list.length === 0) throw failure("invalid_options", "give url or endpoints");
  return list.map(({ gateway, tracker }) => ({ gateway: baseUrl(gateway), tracker: baseUrl(tracker) }));
}

function baseUrl(text: string): string {
  if (!URL.canParse(text)) throw failure("invalid_options", `not a URL: ${text}`);
  return text.replace(/\/+$/, "");
}
