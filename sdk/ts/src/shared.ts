// What all parts of one client share: its options, checked and with defaults, and its endpoints.
import { type Decoder, decoderOf } from "./decode.ts";
import { EndpointPool } from "./endpoints.ts";
import { failure } from "./errors.ts";
import { type HighwaterOptions } from "./options.ts";
import { callUser, type Runtime } from "./runtime.ts";
import { DEFAULT_TUNING, type Tuning } from "./tuning.ts";

export interface Shared extends Runtime, Tuning {
  readonly level: string;
  /** Time limit of one attempt. */
  readonly attemptMs: number;
  /** Time limit of all attempts of a call that sets none. */
  readonly totalMs: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly gateways: EndpointPool;
  readonly trackers: EndpointPool;
  readonly decode: Decoder;
}

/** Checks the options and adds defaults. Errors: `invalid_options`. */
export function sharedOf(options: HighwaterOptions): Shared {
  const { url = [], endpoints, apiKey, observe } = options;
  const { level = "region", requestTimeoutMs = 10_000, totalTimeoutMs = 30_000 } = options;
  const urls = typeof url === "string" ? [url] : url;
  const list = endpoints ?? urls.map((each) => ({ gateway: each, tracker: each }));
  if (list.length === 0 || (endpoints && urls.length > 0))
    throw failure("invalid_options", "set either url or endpoints");
  const tuning = { ...DEFAULT_TUNING, ...options.tuning };
  return {
    ...tuning,
    level,
    attemptMs: requestTimeoutMs,
    totalMs: totalTimeoutMs,
    fetch: options.fetch ?? ((address, init) => fetch(address, init)),
    random: options.random ?? Math.random,
    monotonicMs: () => performance.now(),
    // What an observer throws, at the beginning or at the end of a call, does not reach the call.
    observe: (event) => {
      const end = observe && callUser(() => observe(event));
      return end && ((result) => callUser(() => end(result)));
    },
    headers: { ...(apiKey && { authorization: `Bearer ${apiKey}` }), ...options.headers },
    gateways: new EndpointPool(
      list.map((each) => baseUrl(each.gateway)),
      tuning,
    ),
    trackers: new EndpointPool(
      list.map((each) => baseUrl(each.tracker)),
      tuning,
    ),
    decode: decoderOf(options.types),
  };
}

function baseUrl(text: string): string {
  if (!URL.canParse(text)) throw failure("invalid_options", `${text} is not a URL`);
  return text.replace(/\/+$/, "");
}
