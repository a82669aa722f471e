// For the tests of switchovers: clients that write all the time, through every gateway and past
// them, and the command as a process of its own, which can be killed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type System } from "@highwater/lab-system";
import { commit, eventually, keysOn, put, verdicts } from "@highwater/lab-system/testing";
import pg from "pg";
import { highwater } from "./support.ts";

const MAIN = fileURLToPath(new URL("../src/main.ts", import.meta.url));

interface Written {
  readonly id: string;
  readonly key: string;
  readonly token: string;
}

/** Writes until it is stopped, and knows what was answered. */
export class Writers {
  readonly written: Written[] = [];
  /** Rows that servers committed for a client that knows nothing of Highwater. */
  readonly direct: number[] = [];
  readonly #system: System;
  readonly #loops: Promise<void>[] = [];
  #isStopping = false;

  private constructor(system: System) {
    this.#system = system;
  }

  static async start(system: System, regions: readonly string[]): Promise<Writers> {
    const writers = new Writers(system);
    const primary = system.cluster.nodes[0]?.id ?? "";
    await system.cluster.query(primary, "CREATE TABLE direct (n int PRIMARY KEY)");
    for (const region of regions) writers.#loops.push(writers.#write(region));
    for (const { id } of system.cluster.nodes) writers.#loops.push(writers.#writePast(id));
    return writers;
  }

  /** Waits until so many more are answered. */
  async more(count: number): Promise<void> {
    const until = this.written.length + count;
    await eventually(`${String(count)} more commits`, () => this.written.length >= until);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#loops);
  }

  async #write(region: string): Promise<void> {
    for (let n = 0; !this.#isStopping; n++) {
      const key = `${region}-${String(n)}`;
      const { id, token } = await commit(this.#system.gateway(region).url, [put(key)]);
      this.written.push({ id, key, token });
    }
  }

  /** With commits that no disk has yet when they are answered. A standby refuses them. */
  async #writePast(node: string): Promise<void> {
    const url = await this.#system.cluster.connectionString(node);
    const place = this.#system.cluster.nodes.findIndex(({ id }) => id === node);
    for (let n = 0; !this.#isStopping;) {
      const client = new pg.Client({ connectionString: url, options: "-c synchronous_commit=off" });
      client.on("error", () => undefined);
      try {
        await client.connect();
        while (!this.#isStopping) {
          const row = (n++ << 2) | place;
          const isWritten = await client.query("INSERT INTO direct VALUES ($1)", [row]).then(
            () => true,
            (cause: unknown) => {
              if ((cause as { code?: unknown }).code === READ_ONLY) return false;
              throw cause;
            },
          );
          if (isWritten) this.direct.push(row);
          await pause(isWritten ? WRITTEN_MS : REFUSED_MS);
        }
      } catch {
        await pause(REFUSED_MS);
      } finally {
        await client.end().catch(() => undefined);
      }
    }
  }

  /** Everything that was answered is on the node, and durable everywhere. */
  async assertNothingLost(primary: string): Promise<void> {
    const { cluster } = this.#system;
    const keys = await keysOn(this.#system, primary);
    const missing = this.written.filter(({ key }) => !keys.has(key));
    assert.deepEqual(missing, [], "every commit is there");
    const rows = new Set((await cluster.query(primary, "SELECT n FROM direct")).map(({ n }) => n));
    assert.deepEqual(
      this.direct.filter((row) => !rows.has(row)),
      [],
      "every commit past Highwater is there",
    );
    for (const region of this.#system.regions) {
      const tracker = this.#system.tracker(region).url;
      const judged = await verdicts(
        tracker,
        this.written.map(({ token }) => token),
        { level: "global" },
      );
      assert.deepEqual(
        judged.filter(({ verdict }) => verdict !== "durable"),
        [],
        `the tracker in ${region} judges them durable`,
      );
      const types = "transaction.lost,promise.broken,transaction.broken,transactions.unlisted";
      const answer = await fetch(`${tracker}/v1/durability/events?format=json&types=${types}`);
      const { events } = (await answer.json()) as { events: { type: string; data: { id?: string } }[] };
      // Transactions that the restart interrupted before their COMMIT are lost, and had no answer.
      const answered = new Set(this.written.map(({ id }) => id));
      const isInterrupted = (event: (typeof events)[number]): boolean =>
        event.type === "transaction.lost" && !answered.has(event.data.id ?? "");
      assert.deepEqual(
        events.filter((event) => !isInterrupted(event)),
        [],
      );
    }
  }
}
/** The pace of a client: without one it would take the whole machine. */
const WRITTEN_MS = 5;
const REFUSED_MS = 50;
const READ_ONLY = "25006";

export interface Switchover {
  readonly code: number | null;
  readonly result: {
    readonly outcome: string;
    readonly steps: readonly { readonly step: string }[];
    readonly reasons: readonly string[];
    readonly warnings: readonly string[];
    readonly goOn: string | null;
    readonly stoppedCleanly: boolean | null;
    readonly withoutPrimaryMs: number | null;
    readonly epoch: { readonly node: string } | null;
  } | null;
  /** Standard output and error. */
  readonly said: string;
}

interface Running {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Called with each line of progress. */
  readonly onLine?: (line: string, kill: () => void) => void;
}

/** As a process. With `--json` it says nothing as it goes, so the result is read from its text. */
export async function switchover({ args, env, onLine }: Running): Promise<Switchover> {
  const child = spawn(process.execPath, [MAIN, "switchover", ...args], {
    env: { PATH: process.env["PATH"], ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const kill = (): void => {
    child.kill("SIGKILL");
  };
  const said: string[] = [];
  const out: string[] = [];
  const read = async (stream: NodeJS.ReadableStream, into: string[]): Promise<void> => {
    for await (const line of createInterface({ input: stream })) {
      said.push(line);
      into.push(line);
      onLine?.(line, kill);
    }
  };
  const reading = Promise.all([read(child.stdout, out), read(child.stderr, [])]);
  const code = await new Promise<number | null>((resolve) => {
    child.once("exit", (exit) => {
      resolve(exit);
    });
  });
  await reading;
  return { code, result: resultOf(args, out.join("\n")), said: said.join("\n") };
}

/** In the test's own process, which is quicker. */
export async function switchoverHere({ args, env }: Omit<Running, "onLine">): Promise<Switchover> {
  const { code, out, err } = await highwater(["switchover", ...args], {
    env: { PATH: process.env["PATH"] ?? "", ...env },
  });
  return { code, result: resultOf(args, out), said: `${err}\n${out}` };
}

function resultOf(args: readonly string[], out: string): Switchover["result"] {
  return args.includes("--json") ? (JSON.parse(out || "null") as Switchover["result"]) : null;
}

/** For the command, as an administrator in the region sees the system. */
export async function environmentOf(system: System, region: string): Promise<Record<string, string>> {
  const endpoints = await system.endpoints(region);
  return {
    HIGHWATER_TOPOLOGY: `@${system.topologyFile(region)}`,
    HIGHWATER_TRACKERS: endpoints.map(({ tracker }) => tracker).join(","),
  };
}
