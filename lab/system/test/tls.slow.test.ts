// Goal: with certificates of the deployment's authority, all traffic between services is TLS, and
// transactions work as without it. A gateway that does not know the authority reaches no tracker,
// and logs why. Method: gateways and trackers as processes, the regions' links between them, and
// requests over TLS from this process.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { get } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { fileURLToPath } from "node:url";
import { makeAuthority } from "@highwater/lab-tools/process/certificate";
import { ServiceProcess, System } from "../src/index.ts";
import { commit, createTable, eventually, put, verdict } from "../src/testing.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const AUTHORITY = makeAuthority("the deployment of this test");
const SHOWN = AUTHORITY.issue("127.0.0.1");
const known = getCACertificates("default");

let system: System;

before(async () => {
  setDefaultCACertificates([...known, AUTHORITY.certificate]);
  system = await System.start({
    cluster: {
      nodes: [
        { id: EAST, region: EAST },
        { id: WEST, region: WEST },
      ],
    },
    env: {
      HIGHWATER_TLS_CERTIFICATE: SHOWN.certificate,
      HIGHWATER_TLS_KEY: SHOWN.key,
      HIGHWATER_TLS_CA: AUTHORITY.certificate,
    },
  });
});

after(async () => {
  await system.close();
  setDefaultCACertificates(known);
});

/** Every service's address, as the other region reaches it and as it listens. */
async function addresses(): Promise<string[]> {
  const seen = (await Promise.all([EAST, WEST].map((region) => system.endpoints(region)))).flat();
  return [...new Set(seen.flatMap(({ gateway, tracker }) => [gateway, tracker]))];
}

interface LogLine extends Readonly<Record<string, unknown>> {
  readonly event: string;
  readonly cause?: { readonly message: string };
}

async function logOf({ logFile }: ServiceProcess): Promise<{ text: string; lines: LogLine[] }> {
  const written = await readFile(logFile, "utf8");
  // The last line may be incomplete.
  const text = written.slice(0, written.lastIndexOf("\n") + 1);
  const lines = text.split("\n").filter((line) => line.startsWith("{"));
  return { text, lines: lines.map((line) => JSON.parse(line) as LogLine) };
}

test("a transaction commits and becomes durable, and every tracker says so", async () => {
  await createTable(system, EAST);
  for (const region of [EAST, WEST]) {
    const { token } = await commit(system.gateway(region).url, [put(`of ${region}`)], {
      ...{ ack: "durable", level: "global" },
    });
    assert.ok(token !== undefined);
    for (const asked of [EAST, WEST]) {
      const found = await verdict(system.tracker(asked).url, token, { level: "global" });
      assert.equal(found.verdict, "durable");
    }
  }
  for (const region of [EAST, WEST])
    for (const service of [system.gateway(region), system.tracker(region)]) {
      assert.match(service.url, /^https:/);
      const { text, lines } = await logOf(service);
      const said = lines.find(({ event }) => event === "listening");
      assert.equal(said?.["hasTls"], true);
      if (service.name.startsWith("gateway"))
        assert.ok(lines.some(({ event }) => event === "tracker_stream_opened"));
      assert.equal(lines.filter(({ event }) => event === "traffic_unencrypted").length, 0);
      assert.doesNotMatch(text, /PRIVATE KEY/);
    }
});

test("plain HTTP gets no answer at any port", async () => {
  for (const url of await addresses()) {
    const plain = url.replace("https:", "http:");
    assert.notEqual(plain, url);
    await assert.rejects(
      new Promise((resolve, reject) => {
        get(`${plain}/readyz`, resolve).on("error", reject);
      }),
      { code: "ECONNRESET" },
    );
  }
});

test("a gateway that does not know the authority reaches no tracker, and its log says what to set", async () => {
  const name = "stranger";
  const stranger = await ServiceProcess.start({
    name,
    service: "gateway",
    logFile: join(system.cluster.dir, "services", `${name}.log`),
    startTimeoutMs: 180_000,
    env: {
      GATEWAY_NAME: name,
      GATEWAY_REGION: EAST,
      GATEWAY_TRACKERS: system.tracker(EAST).url,
      HIGHWATER_TOPOLOGY: `@${system.topologyFile(EAST)}`,
    },
  });
  try {
    const said = await eventually("it says why", async () => {
      const { lines } = await logOf(stranger);
      return lines.find(({ event }) => event === "tracker_not_reached");
    });
    assert.match(said.cause?.message ?? "", /is not signed by a trusted authority.*HIGHWATER_TLS_CA/);
  } finally {
    await stranger.stop();
  }
});

test("the command failover-candidate asks trackers over TLS with the authority, and without it says that it cannot", async () => {
  const main = new URL(
    "../../../services/durability-tracker/src/cli/failover-candidate/main.ts",
    import.meta.url,
  );
  const report = (authority: Readonly<Record<string, string>>): Promise<string> =>
    new Promise((resolve) => {
      const env = {
        ...process.env,
        ...authority,
        HIGHWATER_TOPOLOGY: `@${system.topologyFile(EAST)}`,
        HIGHWATER_TRACKERS: system.tracker(EAST).url,
      };
      // Ignores the exit code, which is about the cluster: only the trackers' answers matter here.
      execFile(process.execPath, [fileURLToPath(main), "--switchover"], { env }, (_error, stdout, stderr) => {
        resolve(stdout + stderr);
      });
    });
  const host = new URL(system.tracker(EAST).url).host;
  // On a busy machine a tracker may answer too late for the command.
  await eventually("the tracker answers", async () => {
    const known = await report({ HIGHWATER_TLS_CA: AUTHORITY.certificate });
    assert.ok(known.includes(host) && !known.includes("does not answer"), known);
    return true;
  });
  assert.match(await report({}), new RegExp(`${host}: does not answer: .*VERIFY`));
});
