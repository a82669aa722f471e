// Goal: the examples of docs/reference/topology.md start the services, and its tables cover the schema. Method: the readers of both
// services get each example's file and variables as the page prints them; a field without a row stops the generator.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { loadConfig as loadTracker } from "@highwater/durability-tracker/config";
import { BLOCK } from "@highwater/lab-tools/markdown";
import { type Topology, topologyWarnings } from "@highwater/protocol";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { loadConfig as loadGateway } from "@highwater/txn-gateway/config";
import { pathOf } from "./pages.ts";
import { FIELDS_OF_TOPOLOGY } from "./topology.ts";

const PAGE = readFileSync(pathOf("topology.md"), "utf8");
const FILE = "/etc/highwater/topology.json";

interface Example {
  readonly title: string;
  readonly topology: string;
  readonly env: Readonly<Record<string, string>>;
}

const EXAMPLES = PAGE.split("\n### ")
  .slice(1)
  .map((section): Example => {
    const [title = ""] = section.split("\n");
    const blocks = [...section.matchAll(BLOCK)].map(({ groups = {} }) => groups);
    const textOf = (kind: string): string => blocks.find((block) => block["kind"] === kind)?.["text"] ?? "";
    const lines = textOf("sh").split("\n").filter(Boolean);
    const env = Object.fromEntries(
      lines.map((line): [string, string] => {
        const [name = "", value = ""] = line.split(/=(.*)/);
        return [name, value];
      }),
    );
    return { title, topology: textOf("json"), env };
  });

/** What stands in the files that the variables of an example name. */
const SECRETS: Readonly<Record<string, string>> = {
  "/run/secrets/deployment-keys.json": TEST_DEPLOYMENT.HIGHWATER_DEPLOYMENT_KEYS,
  "/run/secrets/internal-secret": "for tests, known to everybody\n",
  "/run/secrets/role-passwords.json": `{"shop_app":"secret"}`,
};
const OWN = {
  ...TEST_DEPLOYMENT,
  ...{
    GATEWAY_NAME: "gateway-1",
    TRACKER_NAME: "tracker-1",
    TRACKER_LEDGER: "/var/lib/highwater/ledger.sqlite",
  },
};

test("there are five examples", () => {
  assert.equal(EXAMPLES.length, 5);
});

for (const { title, topology, env } of EXAMPLES)
  test(`gateway and tracker start with the example "${title}"`, () => {
    const { nodes } = JSON.parse(topology) as Topology;
    const region = nodes[0]?.region ?? "";
    const all = { ...OWN, GATEWAY_REGION: region, TRACKER_REGION: region, ...env };
    const read: string[] = [];
    const readFile = (path: string): string => {
      read.push(path);
      const text = path === FILE ? topology : SECRETS[path];
      assert.ok(text !== undefined, path);
      return text;
    };
    for (const load of [loadGateway, loadTracker]) {
      const loaded = load(all, readFile);
      assert.ok(loaded.ok, loaded.ok ? "" : loaded.faults.join("\n"));
      assert.deepEqual(loaded.config.topology, JSON.parse(topology));
      assert.deepEqual(topologyWarnings(loaded.config.topology), []);
    }
    const files = Object.values(env).filter((value) => value.startsWith("@"));
    assert.deepEqual([...new Set(read)].sort(), files.map((value) => value.slice(1)).sort());
  });

test("the example with TLS has no password in a connection string", () => {
  const { topology } = EXAMPLES.at(-1) ?? { topology: "" };
  for (const { url } of (JSON.parse(topology) as Topology).nodes) {
    assert.equal(new URL(url).password, "");
    assert.equal(new URL(url).searchParams.get("sslmode"), "verify-full");
  }
});

test("both tables of the page have a row for each field of the schema", () => {
  const rows = [...PAGE.matchAll(/^\| `([a-z][^`]*)` \|/gm)].map(([, path = ""]) => path);
  const fields = [...FIELDS_OF_TOPOLOGY.keys()];
  assert.deepEqual(rows, [...fields, ...fields]);
  assert.ok(fields.length >= 15);
});
