// Goal: the real Envoy takes what the generator makes; for a wrong source it lists every fault; and
// the limits are those of the services.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { refusalOf } from "@highwater/lab-tools/envoy";
import { BOOTSTRAP_FILE, DEFAULT_LIMITS, type EdgeSource, readSource } from "../src/index.ts";
import { makeCertificate } from "@highwater/lab-tools/process/certificate";
import { withoutEnvoy, writeFiles } from "./support/edge.ts";

const EXAMPLE = new URL("../example/us-east.json", import.meta.url);

async function example(): Promise<EdgeSource> {
  return JSON.parse(await readFile(EXAMPLE, "utf8")) as EdgeSource;
}

test(
  "the real Envoy takes the example and every kind of source, and refuses what is wrong",
  withoutEnvoy,
  async (t) => {
    const directory = await mkdtemp(join(tmpdir(), "highwater-edge-"));
    t.after(() => rm(directory, { recursive: true, force: true }));
    const { certificate, key } = makeCertificate("localhost");
    const tls = { certificate: join(directory, "tls.crt"), key: join(directory, "tls.key") };
    await writeFile(tls.certificate, certificate);
    await writeFile(tls.key, key);
    const source = await example();
    const here = { ...source, directory, adminSocket: join(directory, "admin.sock"), accessLog: "/dev/null" };
    const { limits: _limits, operators: _operators, ...small } = here;
    const kinds: readonly EdgeSource[] = [
      { ...here, listen: { ...here.listen, tls } },
      { ...small, listen: { address: "::1", port: 0 } },
      {
        ...here,
        listen: { address: "127.0.0.1", port: 0 },
        traces: { address: "collector.internal", port: 4318 },
      },
      {
        ...small,
        listen: { address: "127.0.0.1", port: 0 },
        trustedProxies: 2,
        sourceAddress: "127.0.0.2",
        limits: { requestsPerSecond: 7, requestsPerSecondOfAddress: 1, answerMs: 1_500 },
        regions: [
          {
            name: "us-east",
            gateways: [{ name: "Gateway.one_1", address: "gateway-1.internal", port: 4600 }],
            trackers: [{ name: "t", address: "fd00::1", port: 4601 }],
          },
        ],
      },
    ];
    for (const kind of kinds) assert.equal(await refusalOf(await writeFiles(kind)), null);
    const file = join(directory, BOOTSTRAP_FILE);
    await writeFile(file, (await readFile(file, "utf8")).replace('"retry_on"', '"retry_in"'));
    assert.match((await refusalOf(file)) ?? "", /retry_in/);
  },
);

test("the command reports all faults of a source at once", async () => {
  const source = await example();
  const [first, second, third] = source.regions;
  assert.ok(first && second && third);
  const wrong = { ...source, limits: { answerMs: 1 }, adminSocket: "admin.sock", colour: "blue" };
  const read = readSource(wrong);
  assert.ok("faults" in read);
  assert.deepEqual(read.faults.map((fault) => fault.split(":")[0]).sort(), [
    "/adminSocket",
    "/colour",
    "/limits/answerMs",
  ]);
  const twice = readSource({ ...source, regions: [second, { ...third, gateways: second.gateways }] });
  assert.ok("faults" in twice);
  assert.deepEqual(twice.faults, [
    "/regions/0/name: must be us-east, where this edge runs",
    "/regions: gateways are told apart by their names, and us-west-1 is there twice",
  ]);
  const named = readSource({ ...source, sourceAddress: "localhost" });
  assert.ok("faults" in named);
  assert.deepEqual(named.faults, ["/sourceAddress: must be a number, not a name: localhost"]);
  const { postgresPort: _, postgresReadPort: _read, ...listen } = source.listen;
  const empty = readSource({ ...source, listen, regions: [{ name: "us-east", gateways: [], trackers: [] }] });
  assert.ok("faults" in empty);
  const httpOnly = {
    ...first,
    gateways: first.gateways.map(({ name, address, port }) => ({ name, address, port })),
  };
  const postgres = readSource({ ...source, regions: [httpOnly] });
  assert.ok("faults" in postgres);
  assert.deepEqual(postgres.faults, [
    "/listen/postgresPort: needs a gateway with postgresPort, its GATEWAY_PG_PORT",
    "/listen/postgresReadPort: needs a gateway with postgresReadPort, its GATEWAY_PG_READ_PORT",
  ]);
  assert.deepEqual(empty.faults, ["/regions: there must be gateways", "/regions: there must be trackers"]);
});

test("the limits of bodies are the services' own", async () => {
  for (const [page, variable, limit] of [
    ["gateway-config", "GATEWAY_BODY_LIMIT_BYTES", DEFAULT_LIMITS.gatewayBodyBytes],
    ["tracker-config", "TRACKER_BODY_LIMIT_BYTES", DEFAULT_LIMITS.trackerBodyBytes],
  ] as const) {
    const url = new URL(`../../../docs/reference/${page}.md`, import.meta.url);
    assert.ok((await readFile(url, "utf8")).includes(`| \`${variable}\` | ${String(limit)} |`), variable);
  }
});

test("the command writes the files once, says which are stale, and refuses a wrong source", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "highwater-edge-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const run = (...args: readonly string[]): Promise<{ code: number; text: string }> =>
    new Promise((resolve) => {
      const cli = fileURLToPath(new URL("../src/cli.ts", import.meta.url));
      const child = execFile(process.execPath, [cli, ...args], (_error, stdout, stderr) => {
        resolve({ code: child.exitCode ?? -1, text: stdout + stderr });
      });
    });
  const source = fileURLToPath(EXAMPLE);
  assert.equal((await run(source, "--out", folder, "--check")).code, 1);
  assert.equal((await run(source, "--out", folder)).code, 0);
  assert.deepEqual(await run(source, "--out", folder, "--check"), { code: 0, text: "" });
  const wrong = join(folder, "wrong.json");
  await writeFile(wrong, "{}");
  const refused = await run(wrong, "--out", folder);
  assert.equal(refused.code, 2);
  assert.match(refused.text, /region/);
});
