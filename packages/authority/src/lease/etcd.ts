// Reads keys and leases through the JSON gateway of etcd's API v3. Owns endpoints, time limits and
// the login; does not know what the key means.
import { type Clock } from "@highwater/runtime";

export interface HttpRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
}

export interface HttpResponse {
  readonly status: number;
  readonly body: string;
}

/** Posts; rejects when there is no answer or the signal aborts. */
export type HttpPost = (request: HttpRequest) => Promise<HttpResponse>;

export interface EtcdOptions {
  /**
   * Base URLs, tried in this order, beginning with the last one that answered. The user and
   * password in a URL are used to log in.
   */
  readonly endpoints: readonly string[];
  /** Limit for one question to one endpoint. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly post: HttpPost;
}

export interface EtcdKey {
  readonly key: string;
  readonly value: string;
  readonly createRevision: string;
  /** Null: the key has no lease. */
  readonly lease: string | null;
}

interface Endpoint {
  readonly base: string;
  readonly login: { readonly name: string; readonly password: string } | null;
  token: string | null;
}

const UNAUTHENTICATED = 401;

export class EtcdClient {
  readonly #options: EtcdOptions;
  readonly #endpoints: readonly Endpoint[];
  #preferred = 0;

  constructor(options: EtcdOptions) {
    this.#options = options;
    this.#endpoints = options.endpoints.map(parseEndpoint);
  }

  /** Linearizable: no older than the moment of the call. Null when there is no such key. */
  async readKey(key: string): Promise<EtcdKey | null> {
    const answer = await this.#ask("/v3/kv/range", { key: toBase64(key) });
    return keysIn(answer)[0] ?? null;
  }

  /**
   * Reads keys as of one moment, linearizable as well: for each name its key, or every key that
   * begins with the name if it ends in `/`. In the order of the names.
   */
  async readTogether(names: readonly string[]): Promise<readonly (readonly EtcdKey[])[]> {
    const success = names.map((name) => ({
      // `0` is the character after `/`, so this range has every key that begins with the name.
      requestRange: name.endsWith("/")
        ? { key: toBase64(name), rangeEnd: toBase64(`${name.slice(0, -1)}0`) }
        : { key: toBase64(name) },
    }));
    const answer = await this.#ask("/v3/kv/txn", { success });
    const responses = Array.isArray(answer.responses) ? (answer.responses as Record<string, unknown>[]) : [];
    if (responses.length !== names.length) throw new Error("the answer is incomplete");
    return responses.map((response) => keysIn((response.response_range ?? {}) as Record<string, unknown>));
  }

  /** Time left on the lease, rounded down to seconds; null when it has expired. */
  async remainingMs(lease: string): Promise<number | null> {
    const answer = await this.#ask("/v3/lease/timetolive", { ID: lease });
    const seconds = answer.TTL === undefined ? 0 : Number(answer.TTL);
    if (!Number.isFinite(seconds)) throw new Error("the answer has no TTL");
    return seconds < 0 ? null : seconds * 1_000;
  }

  /**
   * Asks until one endpoint answers. A member that is cut off from its cluster uses up its whole
   * time limit.
   */
  async #ask(path: string, body: unknown): Promise<Record<string, unknown>> {
    const failures: string[] = [];
    const first = this.#preferred;
    for (let step = 0; step < this.#endpoints.length; step++) {
      const at = (first + step) % this.#endpoints.length;
      const endpoint = this.#endpoints[at];
      if (endpoint === undefined) continue;
      try {
        const answer = await this.#askOne(endpoint, path, body);
        this.#preferred = at;
        return answer;
      } catch (cause) {
        failures.push(`${new URL(endpoint.base).host}: ${messageOf(cause)}`);
      }
    }
    throw new Error(failures.join("; "));
  }

  async #askOne(endpoint: Endpoint, path: string, body: unknown): Promise<Record<string, unknown>> {
    if (endpoint.login !== null && endpoint.token === null) await this.#logIn(endpoint);
    let response = await this.#post(endpoint, path, body);
    if (response.status === UNAUTHENTICATED && endpoint.login !== null) {
      // The token may have expired.
      await this.#logIn(endpoint);
      response = await this.#post(endpoint, path, body);
    }
    return parseAnswer(response);
  }

  async #logIn(endpoint: Endpoint): Promise<void> {
    endpoint.token = null;
    const { token } = parseAnswer(await this.#post(endpoint, "/v3/auth/authenticate", endpoint.login));
    if (typeof token !== "string") throw new Error("the login returned no token");
    endpoint.token = token;
  }

  async #post({ base, token }: Endpoint, path: string, body: unknown): Promise<HttpResponse> {
    const { clock, timeoutMs, post } = this.#options;
    const limit = new AbortController();
    const cancel = clock.after(timeoutMs, () => {
      limit.abort(new Error(`no answer in ${String(timeoutMs)} ms`));
    });
    try {
      const headers: Record<string, string> = { "content-type": "application/json" };
      if (token !== null) headers.authorization = token;
      return await post({ url: `${base}${path}`, headers, body: JSON.stringify(body), signal: limit.signal });
    } finally {
      cancel();
    }
  }
}

function toBase64(text: string): string {
  return Buffer.from(text).toString("base64");
}

function keysIn(answer: Record<string, unknown>): EtcdKey[] {
  const found = Array.isArray(answer.kvs) ? (answer.kvs as Record<string, unknown>[]) : [];
  return found.map(({ key, value, create_revision: createRevision, lease }) => {
    if (typeof createRevision !== "string") throw new Error("the answer has no create_revision");
    // The JSON leaves out zeros.
    const isLeased = typeof lease === "string" && lease !== "0";
    return { key: textOf(key), value: textOf(value), createRevision, lease: isLeased ? lease : null };
  });
}

function textOf(base64: unknown): string {
  return typeof base64 === "string" ? Buffer.from(base64, "base64").toString("utf8") : "";
}

function parseEndpoint(text: string): Endpoint {
  const url = new URL(text);
  const name = decodeURIComponent(url.username);
  const login = name === "" ? null : { name, password: decodeURIComponent(url.password) };
  return { base: `${url.origin}${url.pathname.replace(/\/+$/, "")}`, login, token: null };
}

function parseAnswer({ status, body }: HttpResponse): Record<string, unknown> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    throw new Error(`status ${String(status)}, and no JSON`);
  }
  const answer = (parsed ?? {}) as Record<string, unknown>;
  if (status === 200) return answer;
  const { message } = answer;
  throw new Error(`status ${String(status)}: ${typeof message === "string" ? message : "no message"}`);
}

/** When `fetch` fails, only its inner cause says why. */
function messageOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  return cause.cause instanceof Error ? messageOf(cause.cause) : cause.message;
}

/** The real transport. It verifies certificates against the authorities that the process trusts. */
export const fetchPost: HttpPost = async ({ url, headers, body, signal }) => {
  const response = await fetch(url, { method: "POST", headers, body, signal, redirect: "error" });
  return { status: response.status, body: await response.text() };
};
