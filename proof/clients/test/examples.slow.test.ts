// Goal: the programs of examples/any-client do what its README says, without an SDK. Method: each
// connects to the wire of one system, in this order, and prints durable results.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { findPostgresProgram, whyNoPostgresProgram } from "@highwater/lab-tools/postgres";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { runProgram } from "../src/program.ts";
import { Rig } from "../src/rig.ts";
import { buildGo, buildJava, whyNoGo, whyNoJava } from "../src/toolchains.ts";

const EXAMPLE = fileURLToPath(new URL("../../../examples/any-client", import.meta.url));
const TABLE = "CREATE TABLE IF NOT EXISTS purchase (buyer text NOT NULL, item text NOT NULL)";

let rig: Rig;
let url: string;

before(async () => {
  rig = await Rig.start();
  const [home = ""] = rig.system.regions;
  url = rig.system.pgUrl(home);
  // Each test may run alone.
  await rig.system.cluster.query(home, `${TABLE}; GRANT ALL ON purchase TO app`);
});

after(() => rig[Symbol.asyncDispose]());

test("psql", { skip: whyNoPostgresProgram("psql") }, async () => {
  const psql = findPostgresProgram("psql") ?? "";
  const options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url, "-f", join(EXAMPLE, "orders.sql")];
  const { code, output, errors } = await runProgram([psql, ...options]);
  assert.equal(code, 0, errors);
  assert.match(output, /Ada\|a lamp\nBob\|a chair\n/);
});

test("Go", { skip: whyNoGo() }, async () => {
  await using folder = await TemporaryFolder.make("highwater-example-");
  const program = await buildGo(join(EXAMPLE, "go"), folder.path);
  const { code, output, errors } = await runProgram([program], { env: { DATABASE_URL: url } });
  assert.equal(code, 0, errors);
  assert.match(output, /^\d+ purchases are durable\n$/);
});

test("Java", { skip: whyNoJava() }, async () => {
  await using folder = await TemporaryFolder.make("highwater-example-");
  const classes = await buildJava(join(EXAMPLE, "java", "Orders.java"), folder.path);
  const { host, pathname, username } = new URL(url);
  const address = `jdbc:postgresql://${host}${pathname}?user=${username}`;
  const { code, output, errors } = await runProgram(["java", "-cp", classes, "Orders", address]);
  assert.equal(code, 0, errors);
  assert.match(output, /^\d+ purchases are durable\n$/);
});
