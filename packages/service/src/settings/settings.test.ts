import assert from "node:assert/strict";
import { test } from "node:test";
import { COCKROACH_REFUSAL } from "@highwater/store";
import { identityVariables, readIdentity } from "../identity/settings.ts";
import { choice, integer, name, origins, parseTopology, secret, text, urls } from "./readers.ts";
import { about, referenceRows } from "./reference.ts";
import { rangesOf, readSettings, variablesOf } from "./setting.ts";

const TABLE = {
  host: text("X_HOST", "127.0.0.1"),
  name: name("X_NAME"),
  size: integer("X_SIZE", { fallback: 5, min: 1, max: 10 }),
  peers: urls("X_PEERS"),
  secret: secret("X_SECRET"),
};
const noFile = (): string => {
  throw Object.assign(new Error("no such file"), { code: "ENOENT" });
};

test("a topology asks for CockroachDB by name or by the scheme of a URL, and is refused", () => {
  const urls = ["postgresql://a/app", "cockroachdb://b:26257/app"];
  const nodes = urls.map((url, at) => ({ id: `n${String(at)}`, region: "r", zone: "a", url }));
  for (const asking of [{ nodes }, { store: "cockroach", nodes: nodes.slice(0, 1) }])
    assert.throws(() => parseTopology(JSON.stringify({ ...asking, levels: {} })), {
      faults: [COCKROACH_REFUSAL],
    });
});

test("what is not set has its default, and an empty value is not set", () => {
  const { values, faults } = readSettings(TABLE, { X_NAME: "one", X_SIZE: "", X_HOST: "" }, noFile);
  assert.deepEqual(faults, []);
  assert.deepEqual(values, { host: "127.0.0.1", name: "one", size: 5, peers: [], secret: null });
});

test("every fault is reported with its variable, and no value is quoted", () => {
  const env = { X_NAME: "no name!", X_SIZE: "11", X_PEERS: "hunter2,http://a", X_SECRET: "hunter2" };
  const { faults } = readSettings(TABLE, env, noFile);
  assert.deepEqual(
    faults.map((fault) => fault.split(" ")[0]),
    ["X_NAME", "X_SIZE", "X_PEERS", "X_SECRET"],
  );
  assert.doesNotMatch(faults.join(), /hunter2|no name/);
  for (const size of ["0", "1.5", "1e1", "-1", " 5", "five"])
    assert.equal(readSettings(TABLE, { X_NAME: "n", X_SIZE: size }, noFile).faults.length, 1, size);
});

test("origins are said exactly as browsers send them, and never all at once", () => {
  const read = (value: string): unknown => {
    const { values, faults } = readSettings({ pages: origins("X_PAGES") }, { X_PAGES: value }, noFile);
    return faults.length > 0 ? faults.map((fault) => fault.slice(0, "X_PAGES entry 0".length)) : values.pages;
  };
  assert.deepEqual(read(""), []);
  const good = "https://app.example.com, http://localhost:8080,http://[::1]:1,https://app.example.com";
  assert.deepEqual(read(good), ["https://app.example.com", "http://localhost:8080", "http://[::1]:1"]);
  const never = ["*", "null", "https://*.example.com/", "https://a.example/", "https://a.example/x"];
  for (const origin of [...never, "a.example", "https://A.example", "https://a.example:443", "file:///x"])
    assert.deepEqual(read(origin), ["X_PAGES entry 0"], origin);
});

test("a secret can come from a file, whose last line may end", () => {
  const files: Record<string, string> = { "/run/long": "a secret that is long\n", "/run/short": "short\n" };
  const readFile = (path: string): string => files[path] ?? noFile();
  const read = (value: string): unknown => {
    const { values, faults } = readSettings({ secret: secret("X_SECRET") }, { X_SECRET: value }, readFile);
    return faults[0] ?? values.secret;
  };
  assert.equal(read("@/run/long"), "a secret that is long");
  assert.equal(read("@/run/short"), "X_SECRET must have at least 16 characters");
  assert.equal(read("@/run/none"), "X_SECRET the file cannot be read: ENOENT");
});

test("each service reads the variables of identity under its own prefix", () => {
  const env = {
    GATEWAY_AUTH: "keys",
    TRACKER_AUTH: "jwt",
    TRACKER_JWT_ISSUER: "i",
    TRACKER_RATE_PER_SECOND: "x",
  };
  const gateway = readIdentity(env, { prefix: "GATEWAY", host: "0.0.0.0" });
  assert.deepEqual([gateway.settings.keys, gateway.settings.jwt, gateway.faults], [true, null, []]);
  const tracker = readIdentity(env, { prefix: "TRACKER", host: "127.0.0.1" });
  assert.equal(tracker.settings.keys, false);
  assert.equal(tracker.settings.jwt?.issuer, "i");
  assert.deepEqual(tracker.faults.map((fault) => fault.split(" ")[0]).sort(), [
    ...["TRACKER_JWT_AUDIENCE", "TRACKER_JWT_JWKS_URL", "TRACKER_JWT_ROLES", "TRACKER_RATE_PER_SECOND"],
  ]);
  const all = identityVariables("TRACKER");
  for (const fault of tracker.faults) assert.ok(all.includes(fault.split(" ")[0] ?? ""));
});

test("a key set is read over https, or within the machine", () => {
  const faultsOf = (url: string): readonly string[] =>
    readIdentity({ T_AUTH: "jwt", T_JWT_JWKS_URL: url }, { prefix: "T", host: "localhost" }).faults.filter(
      (fault) => fault.startsWith("T_JWT_JWKS_URL"),
    );
  for (const url of ["https://idp.example/jwks", "http://127.0.0.1:8/jwks", "http://[::1]/jwks"])
    assert.deepEqual(faultsOf(url), [], url);
  for (const url of ["http://idp.example/jwks", "http://127.0.0.1.example/", "ftp://127.0.0.1/", "jwks"])
    assert.deepEqual(faultsOf(url), ["T_JWT_JWKS_URL must be an https URL"], url);
});

test("where keys or tokens are asked for, one id has at most 512 requests in flight", () => {
  const limitOf = (env: Record<string, string>): number | null =>
    readIdentity(env, { prefix: "T", host: "localhost" }).settings.limits.concurrency;
  assert.equal(limitOf({ T_AUTH: "keys" }), 512);
  assert.equal(limitOf({ T_AUTH: "keys", T_CONCURRENCY: "7" }), 7);
  assert.equal(limitOf({ T_AUTH: "none" }), null);
  assert.equal(limitOf({}), null);
});

test("a service that others can reach must say whom it trusts", () => {
  const faultsOf = (auth: string | undefined, host: string): readonly string[] =>
    readIdentity({ T_AUTH: auth }, { prefix: "T", host }).faults;
  assert.deepEqual(faultsOf(undefined, "localhost"), []);
  assert.match(faultsOf(undefined, "0.0.0.0").join(), /^T_AUTH is required because T_HOST is not loopback/);
  assert.deepEqual(faultsOf("none", "0.0.0.0"), []);
  assert.match(faultsOf("none,keys", "0.0.0.0").join(), /^T_AUTH must be/);
});

test("the reference knows exactly the variables that there are", () => {
  const known = { X_HOST: about("where", "`127.0.0.1`"), X_SIZE: about("how many") };
  const { host, size } = TABLE;
  assert.deepEqual(referenceRows(variablesOf({ host, size }), rangesOf({ host, size }), known), [
    "| `X_HOST` | `127.0.0.1` |  | where |",
    "| `X_SIZE` | 5 | 1 to 10 | how many |",
  ]);
  assert.throws(() => referenceRows(["X_HOST"], rangesOf({ host }), known), /unknown variables: X_SIZE/);
  assert.throws(() => referenceRows(variablesOf(TABLE), rangesOf(TABLE), known), /X_NAME is not described/);
});

test("a choice is one of its values, or the first", () => {
  const mode = choice("X_MODE", ["off", "rows", "all"]);
  const read = (value?: string) => mode.read(value, noFile);
  assert.deepEqual([read(), read(""), read("off"), read("all")], ["off", "off", "off", "all"]);
  assert.throws(() => read("Rows"), { faults: ["must be off, rows or all"] });
  assert.throws(() => choice("X_MODE", ["on", "off"]).read("0", noFile), { faults: ["must be on or off"] });
});
