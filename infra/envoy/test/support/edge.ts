// A real Envoy that runs by what the generator makes, in a folder of its own.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Problem } from "@highwater/protocol";
import { Envoy, whyNoEnvoy } from "@highwater/lab-tools/envoy";
import { BOOTSTRAP_FILE, edgeFiles, type EdgeSource, readSource } from "../../src/index.ts";

export const withoutEnvoy = { skip: whyNoEnvoy() };

const LIMIT_MS = 30_000;

export type Changes = Partial<Omit<EdgeSource, "listen" | "directory" | "adminSocket">> &
  Partial<Omit<EdgeSource["listen"], "address">>;

export async function makeFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), "highwater-edge-"));
}

/** Writes the files that the source makes; returns the bootstrap's. */
export async function writeFiles(source: EdgeSource): Promise<string> {
  const read = readSource(source);
  if ("faults" in read) throw new Error(read.faults.join("; "));
  for (const [name, text] of edgeFiles(read.edge)) await writeFile(join(source.directory, name), text);
  return join(source.directory, BOOTSTRAP_FILE);
}

export class TestEdge implements AsyncDisposable {
  readonly envoy: Envoy;
  readonly url: string;
  readonly #folder: string;

  private constructor(envoy: Envoy, folder: string, url: string) {
    this.envoy = envoy;
    this.#folder = folder;
    this.url = url;
  }

  static async start(changes: Changes & Pick<EdgeSource, "regions">, folder?: string): Promise<TestEdge> {
    const directory = folder ?? (await makeFolder());
    const { tls, port = 0, postgresPort, postgresReadPort, postgresProxyProtocol, ...rest } = changes;
    const source: EdgeSource = {
      region: changes.regions[0]?.name ?? "",
      listen: {
        address: "127.0.0.1",
        port,
        ...(tls && { tls }),
        ...(postgresPort !== undefined && { postgresPort }),
        ...(postgresReadPort !== undefined && { postgresReadPort }),
        ...(postgresProxyProtocol !== undefined && { postgresProxyProtocol }),
      },
      directory,
      adminSocket: join(directory, "admin.sock"),
      accessLog: join(directory, "access.log"),
      ...rest,
    };
    const envoy = await Envoy.start({
      bootstrap: await writeFiles(source),
      adminSocket: source.adminSocket,
      logFile: join(directory, "envoy.log"),
    });
    const scheme = tls === undefined ? "http" : "https";
    return new TestEdge(envoy, directory, `${scheme}://127.0.0.1:${String(envoy.port("public"))}`);
  }

  /** Lines of the access log; Envoy writes them out when it is asked to reopen the file. */
  async log(): Promise<readonly Readonly<Record<string, string | number | null>>[]> {
    await this.envoy.admin("/reopen_logs", "POST");
    const text = await readFile(join(this.#folder, "access.log"), "utf8");
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Readonly<Record<string, string | number | null>>);
  }

  /** The sum of a counter or the value of a gauge. */
  async statistic(name: string): Promise<number> {
    const { text } = await this.envoy.admin(`/stats?filter=^${name.replaceAll(".", "\\.")}$`);
    return Number(/: ([0-9]+)/.exec(text)?.[1] ?? "0");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.envoy.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

export interface EdgeResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: { readonly from?: string } & Partial<Problem>;
}

export async function ask(url: string, init: RequestInit = {}): Promise<EdgeResponse> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(LIMIT_MS), ...init });
  const text = await answer.text();
  const body = (text.startsWith("{") ? JSON.parse(text) : {}) as EdgeResponse["body"];
  return { status: answer.status, headers: answer.headers, text, body };
}

export function post(url: string, headers: Record<string, string> = {}, body = "{}"): Promise<EdgeResponse> {
  return ask(url, { method: "POST", headers: { "content-type": "application/json", ...headers }, body });
}
