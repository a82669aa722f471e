// Goal: a tracker serves the built console under a policy that lets the page load and call nothing but itself, and says what to do when
// it is not built. Method: requests to the routes alone, with a folder of made-up files.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { makeServer } from "@highwater/service";
import { MemoryLog } from "@highwater/service/testing";
import { consoleRoutes } from "./console.ts";

async function withConsole(
  use: (app: ReturnType<typeof makeServer>, folder: string) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "highwater-console-"));
  const app = makeServer({ bodyLimitBytes: 1_000, log: new MemoryLog() });
  consoleRoutes(app, { folder, tracker: "us-east-1", region: "us-east", authority: "lease" });
  try {
    await use(app, folder);
  } finally {
    await app.close();
    await rm(folder, { recursive: true });
  }
}

async function place(folder: string, file: string, text: string): Promise<void> {
  await writeFile(join(folder, file), text);
  await writeFile(join(folder, `${file}.gz`), gzipSync(text));
}

test("without the built files the answer names the command; once they are there, they are served", () =>
  withConsole(async (app, folder) => {
    const missing = await app.inject("/console");
    assert.equal(missing.statusCode, 404);
    assert.match(missing.json<{ detail: string }>().detail, /`make console`/);
    await place(folder, "index.html", "<meta content={{tracker}}/{{region}}/{{authority}}>");
    const page = await app.inject("/console");
    assert.deepEqual(
      [page.statusCode, page.body, page.headers["content-type"]],
      [200, "<meta content=us-east-1/us-east/lease>", "text/html; charset=utf-8"],
    );
    assert.equal((await app.inject("/console/")).statusCode, 404);
    assert.equal((await app.inject({ method: "POST", url: "/console" })).statusCode, 405);
  }));

test("every file has the strict policy, is packed for those that can unpack, and is sent once", () =>
  withConsole(async (app, folder) => {
    await place(folder, "app.js", "let x = 1;");
    const headers = { "accept-encoding": "br, gzip" };
    const packed = await app.inject({ url: "/console/app.js", headers });
    assert.equal(packed.headers["content-encoding"], "gzip");
    const plain = await app.inject("/console/app.js");
    assert.deepEqual([plain.body, plain.headers["content-encoding"]], ["let x = 1;", undefined]);
    assert.equal(
      plain.headers["content-security-policy"],
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    const tag = String(plain.headers["etag"]);
    const again = await app.inject({ url: "/console/app.js", headers: { "if-none-match": tag } });
    assert.deepEqual([again.statusCode, again.body], [304, ""]);
  }));
