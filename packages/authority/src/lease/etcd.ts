// Speaks etcd's version 3 over its JSON gateway, as far as reading a leader key needs it. Owns
// endpoints, time limits and the login; does not know what the key means.
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
   * Base URLs, tried in this order from the last one that answered; a user and password in them are
   * used to log in.
   */
  readonly endpoints: readonly string[];
  /** For each endpoint and question. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly post: HttpPost;
}

export interface EtcdKey {
  readonly key: string;
  readonly value: string;
  readonly createRevision: string;
  /** Null: bound to none. */
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
   * Keys of one moment, linearizable as well: of each name its key, or where it ends in `/` all
   * that begin with it. In the order of the names.
   */
  async readTogether(names: readonly string[]): Promise<readonly (readonly EtcdKey[])[]> {
    const success = names.map((name) => ({
      // Behind all that begin with a slash is what begins with the character that follows it.
      requestRange: name.endsWith("/")
        ? { key: toBase64(name), rangeEnd: toBase64(`${name.slice(0, -1)}0`) }
        : { key: toBase64(name) },
    }));
    const answer = await this.#ask("/v3/kv/txn", { success });
    const responses = Array.isArray(answer.responses) ? (answer.responses as Record<string, unknown>[]) : [];
    if (responses.length !== names.length) throw new Error("the answer is incomplete");
    return responses.map((response) => keysIn((response.response_range ?? {}) as Record<string, unknown>));
  }

  /** What is left of the lease, rounded down to seconds; null when it is over. */
  async remainingMs(lease: string): Promise<number | null> {
    const answer = await this.#ask("/v3/lease/timetolive", { ID: lease });
    const seconds = answer.TTL === undefined ? 0 : Number(answer.TTL);
    if (!Number.isFinite(seconds)) throw new Error("the answer has no TTL");
    return seconds < 0 ? null : seconds * 1_000;
  }

  /**
   * The first endpoint that answers; a member that has lost its cluster does not, and takes its
   * whole time for it.
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
      // Tokens do not live for ever.
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
    // Zeros are left out of the JSON.
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

/** The inner cause of a failed fetch says what happened; its own message never does. */
function messageOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  return cause.cause instanceof Error ? messageOf(cause.cause) : cause.message;
}

/** The real transport. Certificates are checked against the authorities that the process trusts. */
export const fetchPost: HttpPost = async ({ url, headers, body, signal }) => {
  const response = await fetch(url, { method: "POST", headers, body, signal, redirect: "error" });
  return { status: response.status, body: await response.text() };
};
