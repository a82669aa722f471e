// Goal: the tests use the Envoy that the environment names. If it cannot run, the message says why.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Envoy, ENVOY_VARIABLE, findEnvoy, whyNoEnvoy } from "../src/envoy/index.ts";

test("only the Envoy that the environment names is tried", () => {
  assert.equal(findEnvoy({ [ENVOY_VARIABLE]: process.execPath }), process.execPath);
  assert.equal(findEnvoy({ [ENVOY_VARIABLE]: "/nowhere/envoy" }), undefined);
  assert.equal(findEnvoy({}, "/nowhere"), undefined);
});

test(
  "an Envoy that does not serve says why, and leaves nothing running",
  { skip: whyNoEnvoy() },
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "highwater-envoy-"));
    t.after(() => rm(folder, { recursive: true, force: true }));
    const bootstrap = join(folder, "envoy.json");
    await writeFile(bootstrap, '{"static_resources":{"clusters":[{"name":"x","type":"NONE_SUCH"}]}}');
    await assert.rejects(
      Envoy.start({ bootstrap, adminSocket: join(folder, "admin.sock"), logFile: join(folder, "envoy.log") }),
      /Envoy does not serve: .*NONE_SUCH/s,
    );
  },
);
