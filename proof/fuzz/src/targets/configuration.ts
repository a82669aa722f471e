// An operator's input: the environment of both services, the files that it names, and levels that
// change later.
import assert from "node:assert/strict";
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FakeClock } from "@highwater/runtime/testing";
import { MetricSet, parseTopology, TopologyFile } from "@highwater/service";
import { MemoryLog } from "@highwater/service/testing";
import * as tracker from "@highwater/durability-tracker/config";
import * as gateway from "@highwater/txn-gateway/config";
import { SECRET_IN_PLACE, TOPOLOGY } from "../samples.ts";
import { pure, type Target } from "../target.ts";

type Env = Readonly<Record<string, string>>;

const SECRET = "secret-of-everybody";
const SHARED: Env = {
  HIGHWATER_TOPOLOGY: JSON.stringify(TOPOLOGY),
  HIGHWATER_DEPLOYMENT: "production",
  HIGHWATER_DEPLOYMENT_KEYS: JSON.stringify([
    { kid: 1, validFrom: "2026-01-01T00:00:00Z", secret: `${SECRET}_0123456789abcdef` },
    { kid: 2, validFrom: "2026-02-01T00:00:00Z", secret: `${SECRET}_fedcba9876543210` },
  ]),
  HIGHWATER_INTERNAL_SECRET: SECRET,
  HIGHWATER_RETENTION_MS: "86400000",
};
const LEASE: Env = {
  HIGHWATER_AUTHORITY: "lease",
  HIGHWATER_LEASE_ETCD: `http://root:${SECRET}@10.0.0.9:2379,https://10.0.0.8:2379`,
  HIGHWATER_LEASE_SCOPE: "batman",
  HIGHWATER_LEASE_NAMESPACE: "/service/",
  HIGHWATER_LEASE_MEMBERS: "patroni-east=east,patroni-west=west",
  HIGHWATER_LEASE_POLL_MS: "500",
};
const identity = (prefix: string): Env => ({
  [`${prefix}_AUTH`]: "keys,jwt",
  [`${prefix}_HOST`]: "0.0.0.0",
  [`${prefix}_JWT_JWKS_URL`]: "https://idp.example.com/jwks",
  [`${prefix}_JWT_ISSUER`]: "https://idp.example.com",
  [`${prefix}_JWT_AUDIENCE`]: "highwater",
  [`${prefix}_JWT_ROLES`]: "app_orders,app_reports",
  [`${prefix}_RATE_PER_SECOND`]: "100",
});
const GATEWAY: Env = {
  ...SHARED,
  GATEWAY_NAME: "gateway-1",
  GATEWAY_REGION: "us-east",
  GATEWAY_TRACKERS: "http://10.0.0.1:4601/,https://10.0.0.2:4601",
  GATEWAY_ROLE_PASSWORDS: `{"app_orders":"${SECRET}"}`,
  GATEWAY_EXPOSURE_LEVEL: "region",
  GATEWAY_EXPOSURE_BYTES: "1000000",
};
const TRACKER: Env = {
  ...SHARED,
  TRACKER_NAME: "tracker-1",
  TRACKER_REGION: "us-east",
  TRACKER_LEDGER: "/var/lib/ledger.sqlite",
  TRACKER_EXPOSURE_LEVEL: "region",
  TRACKER_WEBHOOK_ALLOW: "hooks.internal,10.1.0.0/16",
  TRACKER_WEBHOOK_DELAYS_MS: "5000,300000",
};

/**
 * One variable per line, so that a changed byte affects only one. The text after an empty line is
 * the content of `@file`.
 */
function write(env: Env, file = ""): string {
  return [...Object.entries(env).map(([name, value]) => `${name}=${value}`), "", file].join("\n");
}

function read(input: Buffer): { readonly env: Record<string, string>; readonly file: string } {
  const text = input.toString("utf8");
  const end = text.indexOf("\n\n");
  const lines = (end < 0 ? text : text.slice(0, end)).split("\n");
  const env: Record<string, string> = {};
  for (const line of lines) {
    const at = line.indexOf("=");
    if (at > 0) env[line.slice(0, at)] = line.slice(at + 1);
  }
  return { env, file: end < 0 ? "" : text.slice(end + 2) };
}

interface Service {
  readonly loadConfig: (
    env: Env,
    readFile: (path: string) => string,
  ) => { readonly ok: true; readonly config: never } | { readonly ok: false; readonly faults: string[] };
  readonly describeConfig: (config: never) => Record<string, unknown>;
}

function environment(
  name: string,
  service: Service,
  seeds: readonly string[],
  words: readonly string[],
): Target {
  return pure({
    name,
    about: "an environment is taken, or every fault in it is named; neither shows a secret",
    seeds,
    words,
    sliceRuns: 800,
    run: (input) => {
      const { env, file } = read(input);
      const loaded = service.loadConfig(env, (path) => {
        if (path === "none") throw Object.assign(new Error("no such file"), { code: "ENOENT" });
        return file;
      });
      const shown = JSON.stringify(loaded.ok ? service.describeConfig(loaded.config) : loaded.faults);
      assert.ok(loaded.ok || loaded.faults.length > 0);
      if (input.toString("utf8").replaceAll(SECRET_IN_PLACE, "").includes("secret-of-")) return;
      assert.ok(!shown.includes("secret-of-"), `a secret is shown: ${shown}`);
    },
  });
}

const WORDS = [
  "@",
  "@none",
  "@file",
  "=",
  ",",
  "http://",
  "keys",
  "jwt",
  "none",
  "lease",
  "operator",
  "0",
  "1e3",
  "-1",
];

const gatewayEnvironment = environment(
  "gateway-environment",
  gateway as unknown as Service,
  [
    write(GATEWAY),
    write({ ...GATEWAY, ...LEASE, ...identity("GATEWAY") }),
    write({ ...GATEWAY, HIGHWATER_TOPOLOGY: "@file" }, JSON.stringify(TOPOLOGY)),
    write({ ...GATEWAY, GATEWAY_ROLE_PASSWORDS: "@file" }, `{"app":"${SECRET}"}`),
  ],
  [...gateway.VARIABLES, ...WORDS],
);

const trackerEnvironment = environment(
  "tracker-environment",
  tracker as unknown as Service,
  [
    write(TRACKER),
    write({ ...TRACKER, ...LEASE, ...identity("TRACKER") }),
    write({ ...TRACKER, HIGHWATER_TOPOLOGY: "@file" }, JSON.stringify(TOPOLOGY)),
    write({ ...TRACKER, HIGHWATER_INTERNAL_SECRET: "@file" }, SECRET),
  ],
  [...tracker.VARIABLES, ...WORDS],
);

const reload: Target = {
  name: "topology-reload",
  about: "a topology's file that changes under a running service changes its levels, or nothing",
  seeds: [
    JSON.stringify(TOPOLOGY),
    JSON.stringify({ ...TOPOLOGY, levels: { disk: { primary: true } } }),
    JSON.stringify({ ...TOPOLOGY, levels: { two: { replicas: 2, outside: "region" } } }),
  ],
  words: ["disk", "region", "zone", "primary", "replicas", "outside", "regions", "all"],
  sliceRuns: 400,
  open: ({ folder }) => {
    const path = join(folder, "topology.json");
    const current = parseTopology(JSON.stringify(TOPOLOGY));
    const log = new MemoryLog();
    const file = new TopologyFile({ path, current, clock: new FakeClock(), log });
    let announced = current.levels;
    file.start({
      metrics: new MetricSet(),
      onLevels: (levels) => {
        announced = levels;
      },
    });
    return {
      run: async (input) => {
        await writeFile(`${path}.new`, input);
        await rename(`${path}.new`, path);
        const before = file.current;
        log.events.length = 0;
        await file.reload();
        assert.deepEqual(file.current.nodes, before.nodes, "nodes have changed");
        assert.deepEqual(announced, file.current.levels, "what was reported is not what it is");
        if (log.events.includes("topology_refused"))
          assert.deepEqual(file.current, before, "what was refused has changed something");
        else assert.deepEqual(file.current.levels, parseTopology(input.toString("utf8")).levels);
      },
      close: async () => {
        file.stop();
      },
    };
  },
};

export const targets: readonly Target[] = [gatewayEnvironment, trackerEnvironment, reload];
