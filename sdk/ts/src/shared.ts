// What all parts of one client share: its options, checked and with defaults, and its endpoints.
import { type Decoder, decoderOf } from "./decode.ts";
import { EndpointPool } from "./endpoints.ts";
import { failure } from "./errors.ts";
import { type HighwaterOptions } from "./options.ts";
import { callUser, type FetchLike, type Runtime } from "./runtime.ts";
import { sharing } from "./shared-requests.ts";
import { type Send } from "./transport.ts";
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
  /** Sends a one-shot transaction that may share its request. Absent: each goes alone. */
  readonly share: Send | undefined;
}

/** A variable of the environment, on platforms that have one and let the program read it. */
function variable(name: string): string | undefined {
  try {
    return (globalThis as { process?: { env: Record<string, string | undefined> } }).process?.env[name];
  } catch {
    return undefined;
  }
}

/** Checks the options and adds defaults. Errors: `invalid_options`. */
export function sharedOf(options: HighwaterOptions): Shared {
  const { endpoints, apiKey = variable("HIGHWATER_API_KEY"), observe } = options;
  const { url = endpoints ? [] : (variable("HIGHWATER_URL")?.split(",") ?? []) } = options;
  const {
    level = "region",
    requestTimeoutMs = 10_000,
    totalTimeoutMs = 30_000,
    shareRequests = true,
  } = options;
  const urls = [url].flat();
  const list = endpoints ?? urls.map((each) => ({ gateway: each, tracker: each }));
  if (list.length === 0 || (endpoints && urls.length > 0))
    throw failure("invalid_options", "set url, endpoints or HIGHWATER_URL");
  const tuning = { ...DEFAULT_TUNING, ...options.tuning };
  const send: FetchLike = options.fetch ?? ((address, init) => fetch(address, init));
  return {
    ...tuning,
    level,
    attemptMs: requestTimeoutMs,
    totalMs: totalTimeoutMs,
    fetch: send,
    share: shareRequests ? sharing(send, tuning.gatherMs) : undefined,
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
  const url = text.trim();
  if (!/^https?:/.test(url) || !URL.canParse(url))
    throw failure("invalid_options", `${url} is not an HTTP URL`);
  return url.replace(/\/+$/, "");
}
