// A real gateway in this process, over a real cluster, and the calls of a client that checks every answer's shape.
import assert from "node:assert/strict";
import { type Cluster } from "@highwater/lab-cluster";
import {
  type BeginRequest,
  type CommitRequest,
  type LevelRule,
  type NodeSpec,
  OpenTransactionResponse,
  type Problem,
  RollbackResponse,
  type TransactionRequest,
  TransactionResponse,
  TransactionStateResponse,
  validate,
} from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { jsonLog, type Tracer } from "@highwater/service";
import { type Store } from "@highwater/store";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { buildApp, type Config, loadConfig, makeDeps } from "../../src/app.ts";
import { SESSION_HEADER } from "../../src/interactive/session-header.ts";
import { newId } from "./fakes.ts";

export interface GatewayResponse<T> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: T;
}

export interface GatewayOptions {
  readonly trackers?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Where the gateway is; its connections go through the link from there. */
  readonly from?: string;
  /** Of the cluster's only node, where the gateway shall not reach it directly. */
  readonly url?: string;
  readonly tracer?: Tracer;
  /** In place of the one for PostgreSQL. */
  readonly makeStore?: (config: Config) => Store;
}

const LEVELS: Record<string, LevelRule> = { disk: { primary: true }, global: { regions: "all" } };
const READY_MS = 60_000;
let gateways = 0;

/**
 * No test waits for one of these limits unless it sets it itself, and a machine that is four times slower must not reach them. A
 * gateway behind a link keeps the product's own limits for connecting and for short questions: a test cuts the link, and the
 * gateway finds out by them.
 */
const PATIENT_MS = 30_000;
const PATIENT = {
  GATEWAY_IDLE_TIMEOUT_MS: "120000",
  GATEWAY_TOTAL_TIMEOUT_MS: "60000",
  GATEWAY_LOCK_TIMEOUT_MS: "60000",
};

const isLinked = ({ from }: GatewayOptions): boolean => from !== undefined;

/** The environment of a gateway process. */
export function gatewayEnv(
  name: string,
  nodes: readonly NodeSpec[],
  options: GatewayOptions,
): Record<string, string> {
  return {
    ...TEST_DEPLOYMENT,
    GATEWAY_NAME: name,
    GATEWAY_REGION: "us-east",
    HIGHWATER_TOPOLOGY: JSON.stringify({ nodes, levels: LEVELS }),
    GATEWAY_TRACKERS: (options.trackers ?? []).join(","),
    GATEWAY_PROBE_INTERVAL_MS: "50",
    GATEWAY_POOL_SIZE: "8",
    ...PATIENT,
    ...(isLinked(options) ? {} : { GATEWAY_CONNECT_TIMEOUT_MS: String(PATIENT_MS) }),
    ...options.env,
  };
}

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

  static async start(
    cluster: Pick<Cluster, "connectionString"> & { readonly nodes: readonly Omit<NodeSpec, "url">[] },
    options: GatewayOptions = {},
  ): Promise<TestGateway> {
    const name = options.env?.["GATEWAY_NAME"] ?? `gateway-${String(++gateways)}`;
    const nodes = await Promise.all(
      cluster.nodes.map(async ({ id, region, zone }) => {
        const from = options.from === undefined ? {} : { from: options.from };
        return { id, region, zone, url: options.url ?? (await cluster.connectionString(id, from)) };
      }),
    );
    const loaded = loadConfig(gatewayEnv(name, nodes, options), () => "");
    assert.ok(loaded.ok, loaded.ok ? "" : loaded.faults.join("\n"));
    const logLines: string[] = [];
    const log = jsonLog("txn-gateway", realClock, (line) => {
      logLines.push(line);
      if (process.env["GATEWAY_TEST_LOG"] !== undefined) process.stderr.write(line);
    });
    const patience = isLinked(options) ? {} : { callTimeoutMs: PATIENT_MS };
    const deps = makeDeps(loaded.config, { log, tracer: options.tracer, ...patience });
    const app = buildApp(loaded.config, { ...deps, store: options.makeStore?.(loaded.config) ?? deps.store });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    return new TestGateway(name, url, logLines, () => app.close());
  }

  /** The same gateway, at another address. */
  reachedBy(url: string): TestGateway {
    return new TestGateway(this.name, url, this.logLines, this.#close);
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

  send(body: string, headers: Record<string, string> = {}): Promise<GatewayResponse<unknown>> {
    return this.call("", body, { headers });
  }

  /** A call below `/v1/transactions`. When the signal aborts, its connection is cut. */
  async call(
    path: string,
    body: unknown,
    how: { readonly headers?: Record<string, string>; readonly signal?: AbortSignal } = {},
  ): Promise<GatewayResponse<unknown>> {
    const response = await fetch(`${this.url}/v1/transactions${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...how.headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
      ...(how.signal === undefined ? {} : { signal: how.signal }),
    });
    const answer: unknown = await response.json();
    const answered = { status: response.status, headers: response.headers, body: answer };
    const type = response.headers.get("content-type") ?? "";
    assert.match(type, response.status < 300 ? /^application\/json/ : /^application\/problem\+json/);
    return answered;
  }

  /** Sends a transaction, whatever the answer. Without an id it makes one. */
  post(request: Partial<TransactionRequest>): Promise<GatewayResponse<unknown>> {
    return this.send(JSON.stringify({ id: newId(), statements: [{ sql: "SELECT 1" }], ...request }));
  }

  async commit(request: Partial<TransactionRequest>): Promise<GatewayResponse<TransactionResponse>> {
    return checkedCommit(await this.post(request));
  }

  async refused(request: Partial<TransactionRequest>): Promise<Problem> {
    return problemOf(await this.post(request));
  }

  async run(...sql: string[]): Promise<TransactionResponse> {
    return (await this.commit({ statements: sql.map((text) => ({ sql: text })) })).body;
  }

  /** Begins an interactive transaction; without an id it makes one. */
  async open(request: Partial<BeginRequest> = {}): Promise<TestTransaction> {
    const id = request.id ?? newId();
    return this.opened(id, await this.call("/begin", { id, ...request }));
  }

  /** The transaction in the answer to a begin. */
  opened(id: string, answered: GatewayResponse<unknown>): TestTransaction {
    const body = checkedOpen(answered, { id, seq: 0 });
    const session = answered.headers.get(SESSION_HEADER);
    assert.ok(session !== null && session.startsWith(`${this.name}.`), "a proxy can route on the header");
    return new TestTransaction(this, { id, session, begun: body });
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

type Begun = ReturnType<typeof checkedOpen>;
export type CallName = "statements" | "commit" | "rollback";

/** The client of one interactive transaction; it counts its calls. */
export class TestTransaction {
  readonly gateway: TestGateway;
  readonly id: string;
  readonly session: string;
  readonly begun: Begun;
  /** Of the last call. */
  seq = 0;

  constructor(gateway: TestGateway, known: { id: string; session: string; begun: Begun }) {
    this.gateway = gateway;
    this.id = known.id;
    this.session = known.session;
    this.begun = known.begun;
  }

  /** The next call, whatever its answer; with a `seq` of its own in the body it is not counted. */
  send(
    name: CallName,
    body: Readonly<Record<string, unknown>> = {},
    how: { readonly signal?: AbortSignal; readonly on?: TestGateway; readonly session?: string | null } = {},
  ): Promise<GatewayResponse<unknown>> {
    const { session = this.session, on = this.gateway, signal } = how;
    const numbered = "seq" in body ? body : { seq: ++this.seq, ...body };
    return on.call(`/${this.id}/${name}`, numbered, {
      ...(session === null ? {} : { headers: { [SESSION_HEADER]: session } }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  async run(...sql: string[]): Promise<Begun> {
    const answered = await this.send("statements", statementsOf(sql));
    assert.equal(answered.headers.get(SESSION_HEADER), this.session);
    return checkedOpen(answered, { id: this.id, seq: this.seq });
  }

  async commit(request: Partial<CommitRequest> = {}): Promise<GatewayResponse<TransactionResponse>> {
    return checkedCommit(await this.send("commit", request));
  }

  async rollback(): Promise<RollbackResponse> {
    const answered = await this.send("rollback");
    const checked = validate(RollbackResponse, answered.body);
    assert.ok(checked.ok, `${String(answered.status)} ${JSON.stringify(answered.body)}`);
    return checked.value;
  }

  async refused(name: CallName, body: Readonly<Record<string, unknown>> = {}): Promise<Problem> {
    return problemOf(await this.send(name, body));
  }
}

export function statementsOf(sql: readonly string[]): { statements: { sql: string }[] } {
  return { statements: sql.map((text) => ({ sql: text })) };
}

export function checkedCommit(answered: GatewayResponse<unknown>): GatewayResponse<TransactionResponse> {
  const checked = validate(TransactionResponse, answered.body);
  assert.ok(checked.ok, `${String(answered.status)} ${JSON.stringify(answered.body)}`);
  return { ...answered, body: checked.value };
}

function checkedOpen(
  answered: GatewayResponse<unknown>,
  expected: { readonly id: string; readonly seq: number },
): OpenTransactionResponse {
  const checked = validate(OpenTransactionResponse, answered.body);
  assert.ok(checked.ok, `${String(answered.status)} ${JSON.stringify(answered.body)}`);
  const { id, seq, expiresAt } = checked.value;
  assert.deepEqual([answered.status, id, seq], [200, expected.id, expected.seq]);
  assert.ok(Date.parse(expiresAt) > 0);
  return checked.value;
}

export function problemOf(answered: GatewayResponse<unknown>): Problem {
  const problem = answered.body as Problem;
  assert.equal(problem.status, answered.status, JSON.stringify(answered.body));
  assert.ok(answered.status >= 400);
  assert.equal(problem.type, `/errors/${problem.code}`);
  if (problem.retry === "wait") {
    assert.ok((problem.retryAfterMs ?? 0) > 0, "a wait says how long");
    assert.ok(Number(answered.headers.get("retry-after")) >= 1);
  }
  return problem;
}
