// Goal: SIGINT and SIGTERM end a long experiment within seconds, and it leaves nothing behind.
// Method: the signal while TPC-C loads its tables; processes are found by a mark in their environment, folders by their parent.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { chmod, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { processesWith, TemporaryFolder } from "@highwater/lab-tools/process";

const CLI = fileURLToPath(new URL("cli.ts", import.meta.url));
/** On a machine with other work. */
const SECONDS_MS = 60_000;
const START_LIMIT_MS = 120_000;

for (const signal of ["SIGINT", "SIGTERM"] as const)
  test(`${signal} while TPC-C loads its tables`, { timeout: START_LIMIT_MS + 2 * SECONDS_MS }, async () => {
    await using temp = await TemporaryFolder.make("highwater-ending-");
    // The databases of a root user run as somebody else.
    await chmod(temp.path, 0o755);
    // What keeps watch over the folder itself names that one alone.
    const inside = join(temp.path, "inside");
    await mkdir(inside);
    const mark = randomUUID();
    const child = spawn(process.execPath, [CLI, "--quick", "--only", "tpcc"], {
      env: { ...process.env, TMPDIR: inside, HIGHWATER_TEST_ENDING: mark },
      stdio: ["ignore", "ignore", "pipe"],
    });
    try {
      const lines: string[] = [];
      for await (const line of createInterface({ input: child.stderr })) {
        lines.push(line);
        if (line.includes("making its tables")) break;
      }
      assert.equal(child.exitCode, null, lines.join("\n"));
      assert.ok(processesWith(mark, inside).length > 5, "servers and services run");
      child.kill(signal);
      assert.deepEqual(await once(child, "exit", { signal: AbortSignal.timeout(SECONDS_MS) }), [
        null,
        signal,
      ]);
      const deadline = performance.now() + SECONDS_MS;
      for (;;) {
        const left = [...processesWith(mark, inside), ...(await readdir(inside))];
        if (left.length === 0) break;
        assert.ok(performance.now() < deadline, left.join("\n"));
        await pause(100);
      }
    } finally {
      child.kill("SIGKILL");
    }
  });
