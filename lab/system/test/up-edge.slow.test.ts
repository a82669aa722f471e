// Goal: `make up` prints lines for psql that lead through the edge of each region. Method: the
// command with a real Envoy, and a client that connects by every line that it prints.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { whyNoEnvoy } from "@highwater/lab-tools/envoy";
import { eventually } from "../src/testing.ts";

const COMMAND = fileURLToPath(new URL("../src/cli.ts", import.meta.url));
const REGIONS = 3;

test("psql reaches the system through the edges of make up", { skip: whyNoEnvoy() }, async (context) => {
  const child = spawn(process.execPath, [COMMAND], { stdio: ["pipe", "pipe", "inherit"] });
  // It quits at the end of its input, also where an assertion has failed.
  context.after(() => child.stdin.end());
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const isOver = once(child, "close").then(() => true);
  while (!output.includes("Ctrl-C stops everything") && !(await Promise.race([isOver, pause(100, false)])));
  const lines = (label: string): string[] =>
    [...output.matchAll(new RegExp(`^ {4}${label} +(postgresql:\\S+)$`, "gm"))].map(([, url = ""]) => url);
  const urls = [...lines("psql"), ...lines("reads")];
  assert.equal(urls.length, 2 * REGIONS, output);
  for (const connectionString of urls) {
    // Until an edge has asked it, a gateway does not count as ready.
    const rows = await eventually("a session through the edge", async () => {
      const client = new pg.Client({ connectionString });
      client.on("error", () => undefined);
      try {
        await client.connect();
        return (await client.query<{ current_user: string }>("SELECT current_user")).rows;
      } catch {
        return undefined;
      } finally {
        await client.end();
      }
    });
    assert.deepEqual(rows, [{ current_user: "app" }]);
  }
  const offered = / {2}psql (postgresql:\S+)\n/.exec(
    output.slice(output.indexOf("any PostgreSQL client")),
  )?.[1];
  assert.equal(offered, lines("psql")[0]);
  child.stdin.end("quit\n");
  assert.equal(await isOver, true);
  assert.equal(child.exitCode, 0);
});
