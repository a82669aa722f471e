import assert from "node:assert/strict";
import { test } from "node:test";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { describeConfig, loadConfig, VARIABLES } from "./config.ts";

const TOPOLOGY = JSON.stringify({
  nodes: [
    { id: "a", region: "us-east", zone: "us-east-a", url: "postgresql://svc:hunter2@a/app" },
    { id: "b", region: "us-west", zone: "us-west-a", url: "postgresql://svc:hunter2@b/app" },
  ],
  levels: { disk: { primary: true }, region: { replicas: 1, outside: "region" } },
});
const GOOD = {
  ...TEST_DEPLOYMENT,
  ...{ GATEWAY_NAME: "gateway-1", GATEWAY_REGION: "us-east", HIGHWATER_TOPOLOGY: TOPOLOGY },
};
const noFiles = (): string => {
  throw Object.assign(new Error("no such file"), { code: "ENOENT" });
};

function load(env: Record<string, string>) {
  const loaded = loadConfig(env, noFiles);
  assert.ok(loaded.ok, loaded.ok ? "" : loaded.faults.join("\n"));
  return loaded.config;
}

function faultsOf(env: Record<string, string>): string[] {
  const loaded = loadConfig(env, noFiles);
  assert.ok(!loaded.ok);
  return loaded.faults;
}

test("defaults fill in what is not set, and the result is frozen", () => {
  const config = load(GOOD);
  assert.equal(config.host, "127.0.0.1");
  assert.equal(config.port, 0);
  assert.equal(config.statementTimeoutMs, 30_000);
  assert.equal(config.bodyLimitBytes, 4 * 1_048_576);
  assert.equal(config.maxRows, 100_000);
  assert.deepEqual(config.trackers, []);
  assert.ok(Object.isFrozen(config));
});

test("trackers keep their order, lose trailing slashes and duplicates", () => {
  const config = load({ ...GOOD, GATEWAY_TRACKERS: "http://b:1/, http://a:2 ,,http://b:1" });
  assert.deepEqual(config.trackers, ["http://b:1", "http://a:2"]);
});

test("every fault is reported at once, each with its variable", () => {
  const faults = faultsOf({
    GATEWAY_NAME: "not a name",
    HIGHWATER_TOPOLOGY: "{",
    GATEWAY_PORT: "99999",
    GATEWAY_MAX_ROWS: "many",
    GATEWAY_TRACKERS: "http://ok, ftp://no, nonsense",
  });
  const variables = faults.map((fault) => fault.split(" ")[0]);
  assert.deepEqual(variables.sort(), [
    "GATEWAY_MAX_ROWS",
    "GATEWAY_NAME",
    "GATEWAY_PORT",
    "GATEWAY_REGION",
    "GATEWAY_TRACKERS",
    "GATEWAY_TRACKERS",
    "HIGHWATER_DEPLOYMENT",
    "HIGHWATER_DEPLOYMENT_KEYS",
    "HIGHWATER_TOPOLOGY",
  ]);
});

test("a topology that its schema or its rules refuse is refused with all reasons", () => {
  const nodes = [{ id: "a", region: "r", zone: "z", url: "postgresql://svc:hunter2@a/app" }];
  const unreachable = JSON.stringify({ nodes, levels: { region: { replicas: 1, outside: "region" } } });
  assert.match(
    faultsOf({ ...GOOD, HIGHWATER_TOPOLOGY: unreachable }).join(),
    /level region can never be reached/,
  );
  const wrong = JSON.stringify({ nodes, levels: {}, extra: 1 });
  assert.match(faultsOf({ ...GOOD, HIGHWATER_TOPOLOGY: wrong }).join(), /extra: is not a known field/);
});

test("the topology can come from a file", () => {
  const loaded = loadConfig({ ...GOOD, HIGHWATER_TOPOLOGY: "@/etc/topology.json" }, (path) => {
    assert.equal(path, "/etc/topology.json");
    return TOPOLOGY;
  });
  assert.ok(loaded.ok);
  assert.match(faultsOf({ ...GOOD, HIGHWATER_TOPOLOGY: "@/nowhere" }).join(), /cannot be read: ENOENT/);
});

test("secrets appear neither in the description nor in a fault", () => {
  const urls = {
    GATEWAY_TRACKERS: "http://user:hunter2@tracker:1",
    GATEWAY_PEERS: "http://user:hunter2@peer:1",
  };
  const described = JSON.stringify(describeConfig(load({ ...GOOD, ...urls })));
  assert.doesNotMatch(described, /hunter2/);
  assert.match(described, /tracker:1.*peer:1|peer:1.*tracker:1/);
  const broken = TOPOLOGY.slice(0, -1);
  assert.doesNotMatch(faultsOf({ ...GOOD, HIGHWATER_TOPOLOGY: broken }).join(), /hunter2/);
});

test("a gateway that asks callers for credentials needs the secret for its peers", () => {
  const peers = { ...GOOD, GATEWAY_PEERS: "http://peer:1" };
  assert.deepEqual(load(peers).peers, ["http://peer:1"]);
  const guarded = { ...peers, GATEWAY_AUTH: "keys" };
  assert.match(faultsOf(guarded).join(), /^HIGHWATER_INTERNAL_SECRET is required with GATEWAY_PEERS/);
  assert.ok(load({ ...guarded, HIGHWATER_INTERNAL_SECRET: "a secret for tests" }));
});

test("each variable is named once", () => {
  assert.equal(new Set(VARIABLES).size, VARIABLES.length);
});

test("a gateway that others reach without a credential runs their SQL as an application's role, or does not start", () => {
  const open = { ...GOOD, GATEWAY_HOST: "0.0.0.0", GATEWAY_AUTH: "none" };
  const withAppUrl = (appUrl: (id: string) => string | undefined): string => {
    const { nodes, levels } = JSON.parse(TOPOLOGY) as { nodes: { id: string }[]; levels: object };
    return JSON.stringify({ levels, nodes: nodes.map((node) => ({ ...node, appUrl: appUrl(node.id) })) });
  };
  assert.match(faultsOf(open).join(), /^HIGHWATER_TOPOLOGY has no appUrl .* for a, b: GATEWAY_AUTH is none/);
  const one = withAppUrl((id) => (id === "a" ? "postgresql://app@a/app" : undefined));
  assert.match(faultsOf({ ...open, HIGHWATER_TOPOLOGY: one }).join(), / for b: /);
  const same = withAppUrl((id) => `postgresql://svc@${id}/app`);
  assert.match(faultsOf({ ...open, HIGHWATER_TOPOLOGY: same }).join(), / for a, b: /);
  const good = withAppUrl((id) => `postgresql://app@${id}/app`);
  assert.equal(load({ ...open, HIGHWATER_TOPOLOGY: good }).host, "0.0.0.0");
  assert.equal(load({ ...open, GATEWAY_HOST: "127.0.0.1" }).host, "127.0.0.1");
  assert.equal(load({ ...open, GATEWAY_AUTH: "keys" }).identity.keys, true);
});
