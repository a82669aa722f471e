// One API key and the requests of its holder: plain HTTP, to any gateway and any tracker.
import { makeUuidV7 } from "@highwater/protocol";

const LIMIT_MS = 60_000;

export interface CallResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface CallerOptions {
  readonly key: string;
  readonly gateways: readonly string[];
  readonly trackers: readonly string[];
}

interface SendOptions {
  /** The region's index among the gateways or trackers. */
  readonly at?: number;
  readonly headers?: Record<string, string>;
  readonly method?: string;
}

/** A caller's open transaction at one gateway, with the header that the gateway returned. */
export interface OpenTransaction {
  readonly id: string;
  readonly header: string;
  readonly begun: CallResponse;
}

export function newId(): string {
  return makeUuidV7(Date.now(), crypto.getRandomValues(new Uint8Array(10)));
}

export class Caller {
  readonly key: string;
  readonly #gateways: readonly string[];
  readonly #trackers: readonly string[];

  constructor({ key, gateways, trackers }: CallerOptions) {
    this.key = key;
    this.#gateways = gateways;
    this.#trackers = trackers;
  }

  async send(
    service: "gateway" | "tracker",
    path: string,
    body: unknown,
    { at = 0, headers = {}, method = body === undefined ? "GET" : "POST" }: SendOptions = {},
  ): Promise<CallResponse> {
    const urls = service === "gateway" ? this.#gateways : this.#trackers;
    const response = await fetch(`${urls[at] ?? ""}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.key}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(LIMIT_MS),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: text === "" ? {} : (JSON.parse(text) as Record<string, unknown>),
    };
  }

  /** A one-shot transaction. */
  run(
    statements: readonly string[],
    more: Readonly<Record<string, unknown>> = {},
    at = 0,
  ): Promise<CallResponse> {
    const body = { id: newId(), statements: statements.map((sql) => ({ sql })), ...more };
    return this.send("gateway", "/v1/transactions", body, { at });
  }

  read(statements: readonly string[], at = 0): Promise<CallResponse> {
    return this.run(statements, { readOnly: true }, at);
  }

  /** A transaction that must become durable. Errors: if it does not. */
  async mustCommit(...statements: string[]): Promise<CallResponse> {
    const answer = await this.run(statements, { ack: "durable", maxWaitMs: 20_000 });
    if (answer.status !== 200) throw new Error(`the transaction failed: ${described(answer)}`);
    return answer;
  }

  async begin(more: Readonly<Record<string, unknown>> = {}, at = 0): Promise<OpenTransaction> {
    const id = typeof more["id"] === "string" ? more["id"] : newId();
    const begun = await this.send("gateway", "/v1/transactions/begin", { id, ...more }, { at });
    return { id, header: begun.headers.get("highwater-session") ?? "", begun };
  }

  /** The next call of an open transaction. `call`: statements, commit or rollback. */
  call(
    { id, header }: Pick<OpenTransaction, "id" | "header">,
    call: "statements" | "commit" | "rollback",
    { seq, statements = [], at = 0 }: { seq: number; statements?: readonly string[]; at?: number },
  ): Promise<CallResponse> {
    const body = { seq, ...(call === "rollback" ? {} : { statements: statements.map((sql) => ({ sql })) }) };
    return this.send("gateway", `/v1/transactions/${id}/${call}`, body, {
      at,
      headers: { "highwater-session": header },
    });
  }

  stateOf(id: string, at = 0): Promise<CallResponse> {
    return this.send("gateway", `/v1/transactions/${id}`, undefined, { at });
  }

  verdicts(tokens: readonly string[], at = 0): Promise<CallResponse> {
    return this.send("tracker", "/v1/durability/verdicts", { tokens }, { at });
  }
}

/** Short enough for one line. */
export function described({ status, body }: CallResponse): string {
  return `${String(status)} ${JSON.stringify(body).slice(0, 300)}`;
}

/** The first row of a statement's result, as texts. */
export function firstRow({ body }: CallResponse, statement = 0): readonly (string | null)[] {
  const results = body["results"] as { rows: (string | null)[][] }[] | undefined;
  return results?.[statement]?.rows[0] ?? [];
}
