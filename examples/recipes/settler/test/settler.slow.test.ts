// Goal: no token is lost or settled twice, and each settlement is right, though both programs are killed at every step and a
// region is lost. Method: both as processes, in two languages, on the real system; in the end what is settled is compared with
// what the producer printed and what the database of the new primary has.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { eventually } from "@highwater/lab-tools/process";
import { System } from "@highwater/lab-system";
import { Highwater, newTransactionId, sql } from "@highwater/sdk";
import { Queue } from "../queue.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
/** Where the programs are: in none of the regions, so that they outlive each. */
const HERE = "workers";
const LIMIT_MS = 90_000;
const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
const PRODUCER = [process.execPath, path("../producer.ts")];
const PYTHON = path("../../../../.venv/bin/python");
const SETTLER = [PYTHON, path("../settle.py")];
const DEATHS = [
  ["take", "after"],
  ["verdicts", "after"],
  ["acknowledge", "before"],
  ["acknowledge", "within"],
  ["acknowledge", "after"],
] as const;

/** One of the two programs. */
class Program implements AsyncDisposable {
  output = "";
  readonly exited: Promise<unknown>;
  readonly #child: ChildProcess;

  constructor([file = "", ...args]: readonly string[], env: Readonly<Record<string, string>>) {
    this.#child = spawn(file, args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    this.exited = once(this.#child, "close");
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on("data", (chunk: Buffer) => (this.output += chunk.toString()));
  }

  get signal(): string | null {
    return this.#child.signalCode;
  }

  async stop(): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.exited;
    assert.equal(this.#child.exitCode, 0, this.output);
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}

/** What the file holds, past both programs. */
class Watch implements Disposable {
  readonly #file: DatabaseSync;

  constructor(file: string) {
    this.#file = new DatabaseSync(file, { readOnly: true, timeout: 10_000 });
  }

  queued(): string[] {
    return this.#column("SELECT id FROM queue");
  }

  settled(verdict = "%"): string[] {
    return this.#column("SELECT id FROM settlement WHERE verdict LIKE ?", verdict);
  }

  /** Both at one moment. */
  all(): Set<string> {
    return new Set(this.#column("SELECT id FROM queue UNION ALL SELECT id FROM settlement"));
  }

  #column(query: string, ...params: string[]): string[] {
    return this.#file
      .prepare(query)
      .all(...params)
      .map(({ id }) => String(id));
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}

test("every token is settled once, whichever process dies", async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "settler-test-"));
  context.after(() => rm(folder, { recursive: true }));
  await using system = await System.start();
  const { cluster } = system;
  await using programs = new AsyncDisposableStack();
  const endpoints = await system.endpoints(HERE);
  const file = join(folder, "queue.sqlite");
  const start = (command: readonly string[]): Program =>
    programs.use(
      new Program(command, {
        ...{ QUEUE: file, RATE: "30", TAKEN_FOR_S: "2", PYTHONDONTWRITEBYTECODE: "1" },
        PYTHONPATH: path("../../../../sdk/python/src"),
        GATEWAYS: endpoints.map(({ gateway }) => gateway).join(","),
        TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
      }),
    );
  const producers = [start(PRODUCER)];
  const committedIds = (): string[] =>
    producers.flatMap(({ output }) => [...output.matchAll(/^committed (.*)$/gm)].map(([, id = ""]) => id));
  await eventually("the producer commits", () => committedIds().length > 0, LIMIT_MS);
  using watch = new Watch(file);
  const assertNothingIsForgotten = (): void => {
    const ids = committedIds();
    const all = watch.all();
    assert.deepEqual(
      ids.filter((id) => !all.has(id)),
      [],
    );
  };

  const first = start(SETTLER);
  await eventually("tokens are settled", () => watch.settled("durable").length >= 20, LIMIT_MS);
  await first.stop();

  for (const [step, when] of DEATHS) {
    const victim = start([PYTHON, path("die_at.py"), step, when]);
    await victim.exited;
    assert.equal(victim.signal, "SIGKILL", victim.output);
    assertNothingIsForgotten();
  }

  // The producer dies: behind a commit whose token is not in the queue yet, and before another commit.
  await producers[0]?.kill();
  const byHand = [newTransactionId(), newTransactionId()];
  const queue = new Queue(file);
  for (const id of byHand) queue.add({ id, cents: 1 });
  queue.close();
  await using hw = new Highwater({ endpoints });
  await hw.transaction(sql`INSERT INTO payment VALUES (${byHand[0] ?? ""}, ${1})`, { id: byHand[0] ?? "" });
  producers.push(start(PRODUCER));
  const settlers = [start(SETTLER), start(SETTLER)];
  await eventually(
    "what its death left open is settled",
    () => {
      const settled = new Set(watch.settled("durable"));
      return byHand.every((id) => settled.has(id));
    },
    LIMIT_MS,
  );

  // Nothing becomes durable any more: the settlers leave it for later. Then it is lost.
  await Promise.all([WEST, EUROPE].map((region) => cluster.link(EAST, region).cut()));
  // The producer's output may arrive late: the database knows what was committed before the links were cut.
  const early = new Set((await cluster.query(EAST, "SELECT id FROM payment")).map(({ id }) => String(id)));
  const heldNow = (): string[] => committedIds().filter((id) => !early.has(id));
  await eventually("much is pending", () => heldNow().length >= 20, LIMIT_MS);
  const held = heldNow();
  const outputs = settlers.map(({ output }) => output.length);
  await eventually(
    "pending tokens are left for later",
    () => settlers.some(({ output }, at) => /[1-9]\d* left for later/.test(output.slice(outputs[at]))),
    LIMIT_MS,
  );
  const queued = new Set(watch.queued());
  assert.deepEqual(
    held.filter((id) => !queued.has(id)),
    [],
  );
  await system.killRegion(EAST);
  const primary = await cluster.mostAdvancedReplica();
  await cluster.promote(primary);
  const atFailover = committedIds().length;
  await eventually("payments go on", () => committedIds().length >= atFailover + 10, LIMIT_MS);
  await producers[1]?.stop();
  await eventually("everything is settled", () => watch.queued().length === 0, LIMIT_MS);
  for (const settler of settlers) await settler.stop();

  assertNothingIsForgotten();
  const rows = await cluster.query(primary, "SELECT id FROM payment");
  assert.deepEqual(watch.settled("durable").sort(), rows.map(({ id }) => String(id)).sort());
  const lost = new Set(watch.settled("lost"));
  assert.deepEqual(
    held.filter((id) => !lost.has(id)),
    [],
  );
  assert.equal(watch.settled().length, rows.length + lost.size + watch.settled("aborted").length);
});
