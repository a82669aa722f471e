// A real Jaeger on loopback for tests: accepts traces by OTLP, keeps them in memory, returns them,
// and ends with the process that started it. Never for production.
import type { ChildProcess } from "node:child_process";
import { createServer } from "node:net";
import { endGuarded, isRunning, spawnGuarded, untilTrue } from "@highwater/lab-tools/process";
import { findJaeger } from "./find.ts";

export { findJaeger, JAEGER_VARIABLE, whyNoJaeger } from "./find.ts";

const START_LIMIT_MS = 60_000;
const WAIT_LIMIT_MS = 60_000;
const STARTS_MAX = 3;
const POLL_MS = 100;
const LOG_CHARS = 4_000;
const TRACES_MAX = 10_000;
/** Each needs a different port, and Jaeger does not accept port 0 for two of them. */
const LISTENERS = [
  "query.http-server",
  "query.grpc-server",
  "collector.otlp.http",
  "collector.otlp.grpc",
  "collector.http-server",
  "collector.grpc-server",
  "admin.http",
] as const;

export interface JaegerReference {
  readonly refType: "CHILD_OF" | "FOLLOWS_FROM";
  readonly traceID: string;
  readonly spanID: string;
}

export interface JaegerSpan {
  readonly traceID: string;
  readonly spanID: string;
  readonly operationName: string;
  readonly references: readonly JaegerReference[];
  /** Microseconds. */
  readonly startTime: number;
  readonly duration: number;
  readonly tags: Readonly<Record<string, unknown>>;
  readonly service: string;
}

/** A trace by its id, or all traces with the service's operation. */
export type TraceQuery = string | { readonly service: string; readonly operation: string };

interface RawTrace {
  readonly spans: readonly (Omit<JaegerSpan, "tags" | "service"> & {
    readonly processID: string;
    readonly tags: readonly { readonly key: string; readonly value: unknown }[];
  })[];
  readonly processes: Readonly<Record<string, { readonly serviceName: string }>>;
}

export class DevJaeger implements AsyncDisposable {
  /** The URL of OTLP over HTTP, for OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly otlpUrl: string;
  readonly otlpPort: number;
  readonly #queryUrl: string;
  readonly #child: ChildProcess;
  #log = "";

  private constructor(child: ChildProcess, ports: ReadonlyMap<string, number>) {
    this.#child = child;
    this.otlpPort = ports.get("collector.otlp.http") ?? 0;
    this.otlpUrl = `http://127.0.0.1:${String(this.otlpPort)}`;
    this.#queryUrl = `http://127.0.0.1:${String(ports.get("query.http-server"))}`;
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (chunk: Buffer) => {
        this.#log = (this.#log + chunk.toString()).slice(-LOG_CHARS);
      });
  }

  /**
   * Resolves when it accepts and returns traces. Errors: `whyNoJaeger`, or its last output when it
   * does not start.
   */
  static async start(): Promise<DevJaeger> {
    const program = findJaeger();
    if (typeof program === "object") throw new Error(program.why);
    let last: unknown;
    // Another process may have taken one of the ports.
    for (let attempt = 0; attempt < STARTS_MAX; attempt++) {
      const ports = await freePorts();
      const flags = [...ports].map(([name, port]) => `--${name}.host-port=127.0.0.1:${String(port)}`);
      const child = spawnGuarded([program, ...flags, `--memory.max-traces=${String(TRACES_MAX)}`], {
        stdout: "pipe",
        stderr: "pipe",
      });
      const jaeger = new DevJaeger(child, ports);
      try {
        await jaeger.#until("it serves", () => jaeger.#serves(), START_LIMIT_MS);
        return jaeger;
      } catch (cause) {
        last = cause;
        await jaeger.close();
      }
    }
    throw last;
  }

  /** The spans, earliest first; none if Jaeger does not know the trace. */
  async trace(query: TraceQuery): Promise<JaegerSpan[]> {
    const which = typeof query === "string" ? `/${query}` : `?${new URLSearchParams(query).toString()}`;
    const answer = await fetch(`${this.#queryUrl}/api/traces${which}`);
    if (answer.status === 404) return [];
    if (!answer.ok) throw new Error(`Jaeger answers ${String(answer.status)}`);
    const { data } = (await answer.json()) as { data: readonly RawTrace[] };
    return data
      .flatMap(({ spans, processes }) =>
        spans.map(({ processID, tags, ...span }) => ({
          ...span,
          tags: Object.fromEntries(tags.map(({ key, value }) => [key, value])),
          service: processes[processID]?.serviceName ?? "",
        })),
      )
      .sort((a, b) => a.startTime - b.startTime);
  }

  /** Waits until the trace satisfies the condition. */
  async eventually(
    query: TraceQuery,
    satisfies: (spans: readonly JaegerSpan[]) => boolean,
  ): Promise<JaegerSpan[]> {
    let spans: JaegerSpan[] = [];
    const look = async (): Promise<boolean> => {
      spans = await this.trace(query);
      return satisfies(spans);
    };
    await this.#until("the trace is whole", look, WAIT_LIMIT_MS, () =>
      spans.map(({ service, operationName }) => `${service}: ${operationName}`).join("; "),
    );
    return spans;
  }

  close(): Promise<void> {
    return endGuarded(this.#child);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #serves(): Promise<boolean> {
    const answers = await Promise.all(
      [`${this.#queryUrl}/api/services`, `${this.otlpUrl}/v1/traces`].map((url) =>
        fetch(url).then(
          async (answer) => {
            await answer.arrayBuffer();
            return answer.status < 500;
          },
          () => false,
        ),
      ),
    );
    return answers.every((ok) => ok);
  }

  async #until(
    what: string,
    look: () => Promise<boolean>,
    limitMs: number,
    last: () => string = () => "",
  ): Promise<void> {
    try {
      await untilTrue(this.#child, look, { limitMs, pollMs: POLL_MS });
    } catch (cause) {
      if (isRunning(this.#child)) throw new Error(`Jaeger: ${what}. ${last()}`, { cause });
      throw new Error(`Jaeger has ended: ${this.#log}`, { cause });
    }
  }
}

/** All are opened at once, so that they differ, and closed together. */
async function freePorts(): Promise<Map<string, number>> {
  const servers = await Promise.all(
    LISTENERS.map(
      (name) =>
        new Promise<readonly [string, ReturnType<typeof createServer>]>((resolve, reject) => {
          const server = createServer();
          server.once("error", reject);
          server.listen(0, "127.0.0.1", () => {
            resolve([name, server]);
          });
        }),
    ),
  );
  const ports = new Map(
    servers.map(([name, server]) => {
      const address = server.address();
      return [name, typeof address === "object" && address !== null ? address.port : 0] as const;
    }),
  );
  await Promise.all(servers.map(([, server]) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
