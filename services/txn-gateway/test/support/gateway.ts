// A real gateway in this process, over a real cluster, and the calls of a client that checks every answer's shape.
import assert from "node:assert/strict";
import { type Cluster } from "@highwater/dev-cluster";
import {
  type LevelRule,
  type Problem,
  type TransactionRequest,
  TransactionResponse,
  TransactionStateResponse,
  validate,
} from "@highwater/protocol";
import { buildApp, jsonLog, loadConfig, makeDeps } from "../../src/app.ts";
import { newId } from "./fakes.ts";

export interface Answered<T> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: T;
}

export interface GatewayOptions {
  readonly trackers?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Where the gateway is; its connections go through the link from there. */
  readonly from?: string;
}

const LEVELS: Record<string, LevelRule> = { disk: { primary: true }, global: { regions: "all" } };
const READY_MS = 15_000;
let gateways = 0;

export class TestGateway {
  readonly name: string;
  readonly url: string;
  readonly logLines: string[];
  readonly #close: () => Promise<void>;

  private constructor(name: string, url: string, logLines: string[], close: () => Promise<void>) {
    this.name = name;
    this.url = url;
    this.logLines = logLines;
    this.#close = close;
  }

  static async start(cluster: Cluster, options: GatewayOptions = {}): Promise<TestGateway> {
    const name = `gateway-${String(++gateways)}`;
    const nodes = await Promise.all(
      cluster.nodes.map(async ({ id, region, zone }) => {
        const from = options.from === undefined ? {} : { from: options.from };
        return { id, region, zone, url: await cluster.connectionString(id, from) };
      }),
    );
    const loaded = loadConfig(
      {
        GATEWAY_NAME: name,
        GATEWAY_REGION: "us-east",
        HIGHWATER_TOPOLOGY: JSON.stringify({ nodes, levels: LEVELS }),
        GATEWAY_TRACKERS: (options.trackers ?? []).join(","),
        GATEWAY_PROBE_INTERVAL_MS: "50",
        GATEWAY_POOL_SIZE: "8",
        ...options.env,
      },
      () => "",
    );
    assert.ok(loaded.ok, loaded.ok ? "" : loaded.faults.join("\n"));
    const logLines: string[] = [];
    const log = jsonLog((line) => {
      logLines.push(line);
      if (process.env["GATEWAY_TEST_LOG"] !== undefined) process.stderr.write(line);
    });
    const app = buildApp(loaded.config, makeDeps(loaded.config, log));
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    return new TestGateway(name, url, logLines, () => app.close());
  }

  close(): Promise<void> {
    return this.#close();
  }

  async ready(limitMs = READY_MS): Promise<void> {
    const untilMs = performance.now() + limitMs;
    for (;;) {
      const { status } = await fetch(`${this.url}/readyz`);
      if (status === 200) return;
      if (performance.now() > untilMs) throw new Error(`not ready: ${this.logLines.slice(-5).join("")}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async send(body: string, headers: Record<string, string> = {}): Promise<Answered<unknown>> {
    const response = await fetch(`${this.url}/v1/transactions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body,
    });
    const answered = { status: response.status, headers: response.headers, body: await response.json() };
    const type = response.headers.get("content-type") ?? "";
    assert.match(type, response.status < 300 ? /^application\/json/ : /^application\/problem\+json/);
    return answered;
  }

  /** Sends a transaction, whatever the answer. An id is made up unless given. */
  post(request: Partial<TransactionRequest>): Promise<Answered<unknown>> {
    return this.send(JSON.stringify({ id: newId(), statements: [{ sql: "SELECT 1" }], ...request }));
  }

  async commit(request: Partial<TransactionRequest>): Promise<Answered<TransactionResponse>> {
    const answered = await this.post(request);
    const checked = validate(TransactionResponse, answered.body);
    assert.ok(checked.ok, `${String(answered.status)} ${JSON.stringify(answered.body)}`);
    return { ...answered, body: checked.value };
  }

  async refused(request: Partial<TransactionRequest>): Promise<Problem> {
    return problemOf(await this.post(request));
  }

  async run(...sql: string[]): Promise<TransactionResponse> {
    return (await this.commit({ statements: sql.map((text) => ({ sql: text })) })).body;
  }

  async state(id: string, query = ""): Promise<TransactionStateResponse> {
    const response = await fetch(`${this.url}/v1/transactions/${id}${query}`);
    const body: unknown = await response.json();
    const checked = validate(TransactionStateResponse, body);
    assert.ok(checked.ok, JSON.stringify(body));
    return checked.value;
  }

  /** The value of one sample of the metrics; NaN when there is none. */
  async metric(sample: string): Promise<number> {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const line = text.split("\n").find((one) => one.startsWith(`${sample} `));
    return Number(line?.slice(sample.length + 1));
  }
}

export function problemOf(answered: Answered<unknown>): Problem {
  const problem = answered.body as Problem;
  assert.equal(problem.status, answered.status, JSON.stringify(answered.body));
  assert.ok(answered.status >= 400);
  assert.equal(problem.type, `urn:highwater:error:${problem.code}`);
  if (problem.retry === "wait") {
    assert.ok((problem.retryAfterMs ?? 0) > 0, "a wait says how long");
    assert.ok(Number(answered.headers.get("retry-after")) >= 1);
  }
  return problem;
}
