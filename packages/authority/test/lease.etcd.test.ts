// Goal: a lease reader never trusts a lease for longer than etcd grants it. Method: one etcd whose
// leases are kept alive, abandoned, revoked and taken over; one that is killed and restarted; one
// that requires a password.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Etcd } from "@highwater/lab-cluster";
import { eventually } from "@highwater/lab-tools/process";
import { realClock } from "@highwater/runtime";
import { EtcdClient, fetchPost } from "../src/lease/etcd.ts";
import { LeaseReader } from "../src/lease/reader.ts";
import { type LeaseView } from "../src/lease/view.ts";

const DEAD = "http://127.0.0.1:1";
/** Long enough that no slow machine lets the lease expire. */
const TTL_S = 60;
/** For leases that expire during the test. */
const SHORT_TTL_S = 6;

describe("the lease reader on a real etcd", () => {
  let etcd: Etcd;
  const readers: LeaseReader[] = [];
  let keys = 0;

  before(async () => {
    etcd = await Etcd.start();
  });

  after(async () => {
    for (const reader of readers) reader.stop();
    await etcd.close();
  });

  const newKey = (): string => `/service/shop-${String(++keys)}/leader`;

  function read(key: string, endpoints: readonly string[] = [etcd.url]): LeaseReader {
    const client = new EtcdClient({ endpoints, timeoutMs: 20_000, clock: realClock, post: fetchPost });
    const reader = new LeaseReader({ etcd: client, key, clock: realClock, pollMs: 50, members: {} });
    readers.push(reader);
    reader.start(() => undefined);
    return reader;
  }

  const isHeldBy = (reader: LeaseReader, node: string): boolean => {
    const { view } = reader;
    return view.kind === "held" && view.term.node === node && realClock.monotonicMs() < view.validUntilMs;
  };
  const becomes = (what: string, is: () => boolean): Promise<true> => eventually(what, is);

  it("sees a holder, and never believes longer than the lease lasts", async () => {
    const key = newKey();
    const reader = read(key, [DEAD, etcd.url]);
    await becomes("nobody", () => reader.view.kind === "free");
    const east = await etcd.hold(key, "east", SHORT_TTL_S);
    await becomes("east", () => isHeldBy(reader, "east"));
    east.abandon();
    // Once etcd has deleted the key, no earlier reading of the lease may still be valid.
    let last: LeaseView = reader.view;
    await becomes("the key is gone", () => {
      if (reader.view.kind === "held") last = reader.view;
      return reader.view.kind === "free";
    });
    assert.ok(reader.view.kind === "free" && last.kind === "held");
    assert.ok(last.validUntilMs < realClock.monotonicMs());
  });

  it("distinguishes a new hold of the same holder from the old one", async () => {
    const key = newKey();
    const reader = read(key);
    const first = await etcd.hold(key, "east", TTL_S);
    await becomes("east", () => isHeldBy(reader, "east"));
    assert.ok(reader.view.kind === "held");
    const { term } = reader.view;
    assert.equal(await reader.confirm(term), true);
    await first.revoke();
    assert.equal(await reader.confirm(term), false);
    await etcd.hold(key, "east", TTL_S);
    assert.equal(await reader.confirm(term), false);
    await becomes("the new term", () => isHeldBy(reader, "east"));
    assert.notEqual(reader.view.term.revision, term.revision);
  });

  it("reads the promotable members together with the leader key, and none for a term that is over", async () => {
    const key = newKey();
    const scope = key.replace(/leader$/, "");
    const put = (name: string, value: unknown): Promise<unknown> =>
      etcd.call("/v3/kv/put", {
        key: Buffer.from(`${scope}${name}`).toString("base64"),
        value: Buffer.from(JSON.stringify(value)).toString("base64"),
      });
    const reader = read(key);
    const held = await etcd.hold(key, "east", TTL_S);
    await becomes("east", () => isHeldBy(reader, "east"));
    assert.ok(reader.view.kind === "held");
    const { term } = reader.view;
    assert.equal((await reader.candidates(term))?.kind, "unknown");
    await put("config", { synchronous_mode: true });
    await put("sync", { leader: "east", sync_standby: "west" });
    await put("members/west", { tags: {} });
    // The key of another cluster whose name has the same beginning.
    await etcd.hold(`${scope.slice(0, -1)}2/members/west`, "{}", TTL_S);
    assert.deepEqual(await reader.candidates(term), { kind: "known", nodes: ["west"] });
    await put("members/west", { tags: { nofailover: true } });
    assert.equal((await reader.candidates(term))?.kind, "unknown");
    await held.revoke();
    assert.equal(await reader.candidates(term), null);
  });

  it("names no primary after etcd has been away for the rest of the lease", async () => {
    const key = newKey();
    const reader = read(key);
    await etcd.hold(key, "east", SHORT_TTL_S);
    await becomes("east", () => isHeldBy(reader, "east"));
    await etcd.stop();
    await becomes("the failure is noticed", () => reader.failure !== null);
    assert.ok(reader.view.kind === "held");
    const { term } = reader.view;
    assert.equal(await reader.confirm(term), false, "no one confirms it");
    await becomes("the belief ends", () => !isHeldBy(reader, "east"));
    assert.match(reader.failure ?? "", /^127\.0\.0\.1:/);
    await etcd.start();
    await becomes("east again", () => isHeldBy(reader, "east"));
    assert.deepEqual(reader.failure, null);
    assert.equal(await reader.confirm(term), true, "it was one uninterrupted hold");
  });

  it("logs in", async () => {
    const key = newKey();
    await etcd.hold(key, "east", TTL_S);
    await etcd.call("/v3/auth/user/add", { name: "root", password: "se cret" });
    await etcd.call("/v3/auth/user/grant", { user: "root", role: "root" });
    await etcd.call("/v3/auth/enable", {});
    const anonymous = read(key);
    const wrong = read(key, [etcd.url.replace("//", "//root:wrong@")]);
    const right = read(key, [etcd.url.replace("//", "//root:se%20cret@")]);
    await becomes("east", () => isHeldBy(right, "east"));
    await becomes("the others are refused", () => anonymous.failure !== null && wrong.failure !== null);
    assert.deepEqual([anonymous.view.kind, wrong.view.kind], ["unread", "unread"]);
    assert.ok(!(wrong.failure ?? "").includes("wrong"));
  });
});
