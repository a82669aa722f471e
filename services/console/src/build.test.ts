// Goal: the built console is small enough, complete, and loads nothing but its own files. Method: it is built into a folder of its own.
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { buildConsole } from "./build.ts";

const MAX_PACKED_BYTES = 80 * 1_024;

test("the console has at most 80 kB packed, and its page names nothing inline or elsewhere", async () => {
  const folder = await mkdtemp(join(tmpdir(), "highwater-console-"));
  try {
    await buildConsole(folder);
    const files = ["app.css", "app.js", "icon.svg", "index.html"];
    assert.deepEqual(
      (await readdir(folder)).sort(),
      files.flatMap((file) => [file, `${file}.gz`]),
    );
    let packedBytes = 0;
    for (const file of files) {
      const packed = await readFile(join(folder, `${file}.gz`));
      assert.deepEqual(gunzipSync(packed), await readFile(join(folder, file)));
      packedBytes += packed.length;
    }
    assert.ok(packedBytes <= MAX_PACKED_BYTES, `${String(packedBytes)} bytes`);
    const page = await readFile(join(folder, "index.html"), "utf8");
    const named = Array.from(page.matchAll(/(?:src|href)="([^"]*)"/g), ([, address = ""]) => address);
    assert.deepEqual(named.sort(), ["/console/app.css", "/console/app.js", "/console/icon.svg"]);
    assert.doesNotMatch(page, /<style|style=|<script(?![^>]*src=)| on\w+=/);
    assert.doesNotMatch(await readFile(join(folder, "app.css"), "utf8"), /url\(|@import/);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
