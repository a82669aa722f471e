// Goal: compose.yaml and the Dockerfile are as their readers need them, without building anything. Method: the file is checked
// against the schema of the Compose specification, and its parts against each other; image.slow.test.ts builds and runs all of it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, test } from "node:test";
import { readSource } from "@highwater/edge";
import { parseTopology } from "@highwater/service";
import { Compile } from "typebox/schema";
import { parse } from "yaml";
import { billOf, debianComponents, npmComponents, packagesBelow } from "../src/sbom.ts";
import { inOrder, readCompose } from "./compose.ts";
import SCHEMA from "./schema/compose-spec.json" with { type: "json" };

const ROOT = join(import.meta.dirname, "../../..");
const FILE = join(ROOT, "compose.yaml");
const DOCKERFILE = readFileSync(join(ROOT, "infra/image/Dockerfile"), "utf8");
const NAMES = [
  "POSTGRES_PASSWORD",
  "SERVICE_PASSWORD",
  "APP_PASSWORD",
  "DEPLOYMENT_SECRET",
  "INTERNAL_SECRET",
];
const SECRETS = Object.fromEntries(NAMES.map((name) => [name, "x".repeat(40)]));

describe("compose.yaml", () => {
  const read = (name: string): string => readFileSync(join(ROOT, "infra/image/compose", name), "utf8");
  const compose = readCompose(FILE, SECRETS);

  it("follows the schema of the Compose specification, which refuses a wrong field", () => {
    const schema = Compile(SCHEMA);
    const document = parse(readFileSync(FILE, "utf8"), { merge: true }) as {
      services: { edge: Record<string, unknown> };
    };
    const [, errors] = schema.Errors(document);
    assert.deepEqual(errors, []);
    document.services.edge["portz"] = [];
    assert.equal(schema.Check(document), false);
  });

  it("starts with no secret of its own", () => {
    for (const name of NAMES) {
      const others = { ...SECRETS, [name]: "" };
      assert.throws(() => readCompose(FILE, others), new RegExp(`^Error: ${name} is not set`));
    }
  });

  it("confines every service, and publishes ports on loopback alone", () => {
    for (const [name, service] of Object.entries(compose.services)) {
      assert.equal(service.read_only, true, name);
      assert.deepEqual(service.cap_drop, ["ALL"], name);
      assert.deepEqual(service.security_opt, ["no-new-privileges:true"], name);
      for (const port of service.ports ?? []) assert.match(port, /^127\.0\.0\.1:/, name);
    }
  });

  it("depends on services and volumes that are there", () => {
    assert.ok(inOrder(compose.services).every((name) => name in compose.services));
    for (const { volumes = [] } of Object.values(compose.services))
      for (const [source = ""] of volumes.map((volume) => volume.split(":")))
        assert.ok(source.startsWith("./") || source in compose.volumes, source);
  });

  it("has a topology and an edge that name its servers and services", () => {
    const topology = parseTopology(read("topology.json"));
    assert.deepEqual(
      topology.nodes.map(({ url }) => new URL(url).hostname).filter((host) => !(host in compose.services)),
      [],
    );
    const source = readSource(JSON.parse(read("edge.json")));
    assert.ok("edge" in source, JSON.stringify(source));
    const places = source.edge.regions.flatMap(({ gateways, trackers }) => [...gateways, ...trackers]);
    assert.equal(places.length, 6);
    for (const { name, address, port } of places) {
      const settings = compose.services[address]?.environment ?? {};
      const prefix = "GATEWAY_NAME" in settings ? "GATEWAY" : "TRACKER";
      assert.equal(settings[`${prefix}_NAME`], name);
      assert.equal(settings[`${prefix}_PORT`], String(port));
    }
  });
});

test("the image has the version of the command, a user by number, and no default for its base", () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "cli/package.json"), "utf8")) as { version: string };
  assert.ok(DOCKERFILE.includes(`image.version="${version}"`));
  assert.match(DOCKERFILE, /^USER 1000:1000$/m);
  assert.match(DOCKERFILE, /^ARG NODE_IMAGE$/m);
  assert.deepEqual([...new Set(DOCKERFILE.match(/^FROM \S+/gm))], ["FROM ${NODE_IMAGE}"]);
});

test("the bill of materials has each package once, in an order of its own", () => {
  const lock = {
    packages: {
      "node_modules/b": { version: "1.0.0", license: "MIT", integrity: "sha512-AQI=" },
      "node_modules/@a/a": { version: "2.0.0" },
      "node_modules/c/node_modules/b": { version: "1.0.0", license: "MIT", integrity: "sha512-AQI=" },
      "node_modules/gone": { version: "1.0.0" },
      "node_modules/@highwater/store": { link: true },
      "packages/store": { version: "0.0.0" },
    },
  };
  const status =
    "Package: tzdata\nStatus: install ok installed\nArchitecture: all\nVersion: 1:2-3\n\nPackage: old\nStatus: deinstall ok config-files\nVersion: 1\n";
  const bill = billOf({ type: "container", name: "highwater", version: "0.1.0" }, [
    ...npmComponents(JSON.stringify(lock), (path) => path !== "node_modules/gone"),
    ...debianComponents(status),
  ]);
  const { components } = JSON.parse(bill) as {
    components: { purl: string; hashes?: unknown; licenses?: unknown }[];
  };
  assert.deepEqual(
    components.map(({ purl }) => purl),
    ["pkg:deb/debian/tzdata@1%3A2-3?arch=all", "pkg:npm/%40a/a@2.0.0", "pkg:npm/b@1.0.0"],
  );
  assert.deepEqual(components[2]?.hashes, [{ alg: "SHA-512", content: "0102" }]);
  assert.deepEqual(components[2]?.licenses, [{ expression: "MIT" }]);
});

test("what a package needs is found as Node finds it", () => {
  const packages = {
    "node_modules/a": { dependencies: { b: "1" }, peerDependencies: { p: "1", q: "1" } },
    "node_modules/a/node_modules/b": { dependencies: { c: "1" } },
    "node_modules/b": { dependencies: { d: "1" } },
    "node_modules/c": { optionalDependencies: { b: "2" } },
    "node_modules/d": {},
    "node_modules/p": {},
    "node_modules/q": {},
    "node_modules/other": {},
  };
  Object.assign(packages["node_modules/a"], { peerDependenciesMeta: { q: { optional: true } } });
  const found = [...packagesBelow(JSON.stringify({ packages }), ["a"])].sort();
  const [nested, ...rest] = ["a/node_modules/b", "a", "b", "c", "d", "p"].map(
    (name) => `node_modules/${name}`,
  );
  assert.deepEqual(found, [nested, ...rest].sort());
});
