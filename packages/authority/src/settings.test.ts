import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AUTHORITY_VARIABLES, describeAuthority, readAuthority } from "./settings.ts";

const LEASE = {
  HIGHWATER_AUTHORITY: "lease",
  HIGHWATER_LEASE_ETCD: "http://one:2379, https://watcher:secret@two:2379",
  HIGHWATER_LEASE_SCOPE: "shop",
};

describe("the authority's settings", () => {
  it("default to ancestry", () => {
    assert.deepEqual(readAuthority({}), { settings: { kind: "ancestry" }, faults: [] });
    assert.deepEqual(readAuthority({ HIGHWATER_AUTHORITY: "operator" }).settings, { kind: "operator" });
  });

  it("name the leader key of a Patroni scope", () => {
    const { settings, faults } = readAuthority(LEASE);
    assert.deepEqual(faults, []);
    assert.ok(settings.kind === "lease");
    assert.equal(settings.lease.key, "/service/shop/leader");
    assert.equal(settings.lease.endpoints.length, 2);
    const other = readAuthority({
      ...LEASE,
      HIGHWATER_LEASE_NAMESPACE: "db/eu",
      HIGHWATER_LEASE_MEMBERS: "pg-0=us-east,pg-1=us-west",
      HIGHWATER_LEASE_POLL_MS: "100",
    });
    assert.ok(other.settings.kind === "lease" && other.faults.length === 0);
    assert.equal(other.settings.lease.key, "/db/eu/shop/leader");
    assert.deepEqual(other.settings.lease.members, { "pg-0": "us-east", "pg-1": "us-west" });
    assert.equal(other.settings.lease.pollMs, 100);
  });

  it("are described without passwords", () => {
    const text = JSON.stringify(describeAuthority(readAuthority(LEASE).settings));
    assert.ok(text.includes("two:2379") && !text.includes("secret"));
  });

  it("report every fault, and quote nothing", () => {
    const { faults } = readAuthority({
      HIGHWATER_AUTHORITY: "lease",
      HIGHWATER_LEASE_ETCD: "hush:2379,ftp://hush",
      HIGHWATER_LEASE_MEMBERS: "hush",
      HIGHWATER_LEASE_POLL_MS: "hush",
      HIGHWATER_LEASE_TIMEOUT_MS: "1",
    });
    assert.equal(faults.length, 6, faults.join("\n"));
    assert.ok(faults.every((fault) => AUTHORITY_VARIABLES.includes(fault.split(" ")[0] ?? "")));
    assert.ok(faults.every((fault) => !fault.includes("hush")));
    assert.equal(readAuthority({ HIGHWATER_AUTHORITY: "both" }).faults.length, 1);
    const stray = readAuthority({ HIGHWATER_AUTHORITY: "operator", HIGHWATER_LEASE_SCOPE: "shop" });
    assert.match(
      stray.faults.join(),
      /^HIGHWATER_LEASE_SCOPE is set, but HIGHWATER_AUTHORITY is not lease; remove it or set HIGHWATER_AUTHORITY=lease$/,
    );
  });
});
