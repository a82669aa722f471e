// Runs targets one after another, each in a thread, and watches them: a thread that dies or hangs
// is a failure, too.
import { Worker } from "node:worker_threads";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { type Services, type Target } from "./target.ts";
import { type Listed } from "./targets/index.ts";

/** What a thread gets. */
export interface Job {
  readonly target: string;
  readonly file: string;
  readonly seed: number;
  readonly runs: number;
  readonly seconds: number;
  /** Runs only this input; null: fuzzes. */
  readonly input: Uint8Array | null;
  readonly services: Services | null;
  /** An empty folder of the thread's own. */
  readonly folder: string;
  /** Its current input: a counter, the length, the bytes. */
  readonly shared: SharedArrayBuffer;
}

export interface Report {
  readonly runs: number;
  readonly kept: number;
  readonly covered: number;
  readonly failure: { readonly input: Uint8Array; readonly error: string } | null;
}

const HEAD_BYTES = 8;
const INPUT_BYTES_MAX = 1_048_576;
const LOOK_MS = 250;
/** How long one input may keep a thread busy. Generous, because the machine has other work. */
const HANG_MS = 60_000;

export function noteInput(shared: SharedArrayBuffer, input: Uint8Array): void {
  const head = new Int32Array(shared, 0, 2);
  const bytes = input.subarray(0, INPUT_BYTES_MAX);
  new Uint8Array(shared, HEAD_BYTES).set(bytes);
  Atomics.store(head, 1, bytes.length);
  Atomics.add(head, 0, 1);
}

export async function runTarget(
  { target, file }: Listed,
  job: Omit<Job, "target" | "file" | "folder" | "shared">,
): Promise<Report> {
  const shared = new SharedArrayBuffer(HEAD_BYTES + INPUT_BYTES_MAX);
  const head = new Int32Array(shared, 0, 2);
  // Made and removed here, because a thread that is ended cleans up nothing.
  const temporary = await TemporaryFolder.make("highwater-fuzz-");
  const folder = temporary.path;
  const worker = new Worker(new URL("./worker.ts", import.meta.url), {
    workerData: { ...job, target: target.name, file, folder, shared } satisfies Job,
    execArgv: ["--disable-warning=ExperimentalWarning"],
  });
  const failed = (error: string): Report => ({
    runs: head[0] ?? 0,
    kept: 0,
    covered: 0,
    failure: { input: new Uint8Array(shared, HEAD_BYTES, head[1] ?? 0).slice(), error },
  });
  let watch: NodeJS.Timeout | undefined;
  try {
    return await new Promise<Report>((resolve) => {
      worker.once("message", resolve);
      worker.once("error", (cause) => {
        const error = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
        resolve(failed(`nobody caught: ${error}`));
      });
      worker.once("exit", (code) => {
        resolve(failed(`the thread ended with ${String(code)}`));
      });
      let last = { count: -1, atMs: performance.now() };
      watch = setInterval(() => {
        const count = Atomics.load(head, 0);
        if (count !== last.count) last = { count, atMs: performance.now() };
        else if (performance.now() - last.atMs > HANG_MS)
          resolve(failed(`nothing happened for ${String(HANG_MS / 1_000)} s`));
      }, LOOK_MS);
    });
  } finally {
    clearInterval(watch);
    await worker.terminate();
    await temporary.remove();
  }
}

/** The text about a finding: what it is, and how to reproduce it. */
export function describeFailure(target: Target, seed: number, { failure }: Report): string {
  if (failure === null) return "";
  const bytes = Buffer.from(failure.input);
  const isText = Buffer.from(bytes.toString("utf8")).equals(bytes);
  return [
    `FOUND by ${target.name} (seed ${String(seed)}): ${failure.error}`,
    `input (${String(bytes.length)} bytes)${isText ? `: ${JSON.stringify(bytes.toString("utf8"))}` : " is not text"}`,
    `again: make fuzz TARGET=${target.name} INPUT=${bytes.toString("base64")}`,
  ].join("\n");
}
