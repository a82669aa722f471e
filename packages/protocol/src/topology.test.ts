// What a topology is refused for, in the words that an operator reads.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isInRange, parseAddressRange } from "./address-range.ts";
import { type NodeSpec, Topology } from "./topology.ts";
import { topologyFaults, topologyWarnings } from "./topology-faults.ts";
import { validate } from "./validate.ts";

const node = (id: string, more: Partial<NodeSpec> = {}): NodeSpec => ({
  id,
  region: id,
  zone: "a",
  url: `postgresql://service@${id}.example/app`,
  ...more,
});
const topology = (nodes: NodeSpec[], levels: Topology["levels"] = { disk: { primary: true } }): Topology => ({
  nodes,
  levels,
});
const THREE = ["us", "eu", "asia"].map((id) => node(id));

test("zones with the same name in two regions are two zones", () => {
  const zone = { zone: { replicas: 1, outside: "zone" } } as const;
  assert.deepEqual(topologyFaults(topology(THREE, zone)), []);
  const oneZone = [node("one", { region: "us" }), node("two", { region: "us" })];
  assert.deepEqual(topologyFaults(topology(oneZone, zone)), [
    "level zone can never be reached: it needs replicas in 1 zone besides the primary's, and the topology has 0 zones",
  ]);
});

test("a level without a valid name is refused, whatever its rule", () => {
  for (const name of ["", "Region", "a b", "__proto__", "x\n"]) {
    const levels = Object.fromEntries([
      ["disk", { primary: true }],
      [name, { replicas: 0, outside: "the world" }],
    ]);
    assert.ok(!validate(Topology, { nodes: THREE, levels }).ok, name);
  }
});

test("a level that needs more regions than there are is refused", () => {
  const region = { far: { replicas: 3, outside: "region" } } as const;
  assert.deepEqual(topologyFaults(topology(THREE, region)), [
    "level far can never be reached: it needs replicas in 3 regions besides the primary's, and the topology has 2 regions",
  ]);
});

test("every region where there is only one is allowed, and said to be no more than a disk", () => {
  const one = topology([node("us")], { global: { regions: "all" } });
  assert.deepEqual(topologyFaults(one), []);
  assert.equal(topologyWarnings(one).length, 1);
  assert.deepEqual(topologyWarnings(topology(THREE, { global: { regions: "all" } })), []);
});

test("a level of more synchronous standbys than the primary can show is refused", () => {
  const safe = (synchronous: number): Topology["levels"] => ({ safe: { synchronous } });
  assert.deepEqual(topologyFaults(topology(THREE, safe(2))), []);
  const asked = THREE.map((one) => ({ ...one, replication: { ask: true as const } }));
  assert.deepEqual(
    [
      topology(THREE, safe(3)),
      topology(asked, safe(1)),
      topology([...asked.slice(0, 2), node("me")], safe(1)),
    ].map(topologyFaults),
    [
      [
        "level safe can never be reached: it needs 3 synchronous standbys that the primary reports, and there can be 2",
      ],
      [
        "level safe can never be reached: it needs 1 synchronous standby that the primary reports, and there can be 0",
      ],
      [],
    ],
  );
});

test("nodes that are one server, or cannot be told apart, are refused", () => {
  const url = "postgresql://service@us.example:5432/app";
  const cases: [NodeSpec[], RegExp][] = [
    [[node("us"), node("us", { url: "postgresql://x/" })], /^node us is configured twice$/],
    [[node("us"), node("eu", { url })], /^nodes us and eu have the same address/],
    [
      [node("us"), node("eu", { replication: { applicationName: "us" } })],
      /^the streams of nodes us and \w+ are indistinguishable/,
    ],
    [
      [
        node("us", { replication: { address: "10.0.0.7" } }),
        node("eu", { replication: { address: "10.0.0.0/8" } }),
      ],
      /^the streams of nodes us and eu are indistinguishable/,
    ],
    [
      [
        node("us", { replication: { slot: "one", address: "10.0.0.7" } }),
        node("eu", { replication: { slot: "one" } }),
      ],
      /^the streams of nodes us and \w+ are indistinguishable/,
    ],
    [
      [node("us", { replication: { address: "10.0.0.300" } })],
      /^node us: 10\.0\.0\.300 is neither an IP address/,
    ],
    [[node("us", { replication: { address: "10.0.0.0/33" } })], /is neither an IP address/],
  ];
  for (const [nodes, fault] of cases) {
    const faults = topologyFaults(topology(nodes));
    assert.equal(faults.length, 1, faults.join("; "));
    assert.match(faults[0] ?? "", fault);
  }
});

test("nodes that differ in one criterion are distinguished", () => {
  const behindOneAddress = [
    node("us", { replication: { address: "10.0.0.7", slot: "one" } }),
    node("eu", { replication: { address: "10.0.0.7", slot: "two" } }),
    node("asia", { replication: { ask: true } }),
    node("africa", { replication: { ask: true } }),
    node("arctic", { replication: { applicationName: "walreceiver", address: "2001:db8::/32" } }),
  ];
  assert.deepEqual(topologyFaults(topology(behindOneAddress)), []);
});

test("a name of digits only is refused, for it would lose its place", () => {
  const faults = topologyFaults(topology(THREE, { disk: { primary: true }, "2": { regions: "all" } }));
  assert.deepEqual(faults, [
    "level 2: a name of digits only would lose its position in the order of levels; use letters",
  ]);
});

test("more than sixteen levels, unknown keys and empty criteria are refused by the schema", () => {
  const many = (count: number): Topology["levels"] =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`l${String(at)}`, { primary: true }]));
  assert.equal(validate(Topology, topology(THREE, many(16))).ok, true);
  assert.equal(validate(Topology, topology(THREE, many(17))).ok, false);
  const wrong = [
    { ...topology(THREE), level: {} },
    topology([{ ...node("us"), adress: "x" } as NodeSpec]),
    topology(THREE, { disk: { primary: true, replicas: 1 } } as unknown as Topology["levels"]),
    topology(THREE, { disk: { replicas: 1, outside: "rack" } } as unknown as Topology["levels"]),
    topology([node("us", { replication: {} as NodeSpec["replication"] & object })]),
    topology([node("us", { replication: { ask: true, slot: "x" } as unknown as { ask: true } })]),
  ];
  for (const value of wrong) {
    const checked = validate(Topology, value);
    assert.ok(!checked.ok, JSON.stringify(value));
    assert.notDeepEqual(checked.faults, [], "a refusal says why");
  }
});

test("an address within IPv6 is the IPv4 address", () => {
  const range = parseAddressRange("10.1.2.0/24");
  assert.ok(range !== null);
  assert.equal(isInRange(range, "::ffff:10.1.2.9"), true);
  assert.equal(isInRange(range, "10.1.3.9"), false);
  assert.equal(isInRange(range, "not an address"), false);
  const mapped = parseAddressRange("::ffff:10.1.2.9");
  assert.ok(mapped !== null && isInRange(mapped, "10.1.2.9"));
});
