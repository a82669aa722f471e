// Goal: the ring answers correctly while the store changes, lags, fails over or does not answer.
// Method: a clock that only the test moves, and a store whose nodes have the keys that the test
// sets.
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { type ApiKey, DEFAULT_LIMITS, type KeyReader } from "@highwater/store";
import { MemoryLog } from "../testing.ts";
import { hashSecret, makeKeyText } from "./key-text.ts";
import { KeyRing } from "./key-ring.ts";
import { ownerTag } from "./principal.ts";

interface Question {
  readonly node: string;
  readonly after: bigint | null;
}

/** Two nodes with the keys that the test sets. A node without a set of keys does not answer. */
class Nodes implements KeyReader {
  readonly nodes = ["a", "b"].map((id) => ({ id, region: id, zone: id }));
  readonly keys = new Map<string, Map<string, ApiKey>>([["a", new Map()]]);
  readonly asked: Question[] = [];
  isClosed = false;
  /** While set, answers wait for this promise. */
  gate: Promise<void> | null = null;

  async readKeys(node: string, after: bigint | null): Promise<readonly ApiKey[]> {
    this.asked.push({ node, after });
    const keys = this.keys.get(node);
    if (keys === undefined) throw new Error("connection refused");
    const answer = [...keys.values()].filter(({ changed }) => after === null || changed > after);
    await this.gate;
    return answer;
  }

  put(node: string, ...keys: readonly ApiKey[]): void {
    const held = this.keys.get(node) ?? new Map<string, ApiKey>();
    for (const key of keys) held.set(key.id, key);
    this.keys.set(node, held);
  }

  close(): void {
    this.isClosed = true;
  }
}

let changes = 0n;
function make(more: Partial<ApiKey> = {}): { key: ApiKey; header: string } {
  const { id, secret, text } = makeKeyText();
  const key: ApiKey = {
    id,
    secretHash: hashSecret(secret),
    name: "orders",
    owner: id,
    role: "app_orders",
    scopes: ["read"],
    limits: DEFAULT_LIMITS,
    createdAtMs: 0,
    expiresAtMs: null,
    revokedAtMs: null,
    changed: ++changes,
    ...more,
  };
  return { key, header: `Bearer ${text}` };
}

const changed = (key: ApiKey, more: Partial<ApiKey>): ApiKey => ({ ...key, ...more, changed: ++changes });

describe("the key ring", () => {
  let clock: FakeClock;
  let nodes: Nodes;
  let log: MemoryLog;
  let primaryEpoch: { node: string; epoch: string } | null;
  let ring: KeyRing;

  beforeEach(() => {
    clock = new FakeClock();
    nodes = new Nodes();
    log = new MemoryLog();
    primaryEpoch = { node: "a", epoch: "one" };
    ring = new KeyRing({ reader: nodes, clock, log, primaryEpoch: () => primaryEpoch, refreshMs: 1_000 });
  });

  /** The principal's id, or the error's code. */
  const ask = (header: string): Promise<string> =>
    ring.authenticate(header).then(
      ({ id }) => id,
      (cause: unknown) => (cause instanceof HighwaterError ? cause.code : String(cause)),
    );

  /** Moves the clock on, so that the answer arrives. */
  const askLong = async (header: string): Promise<string> => {
    const answer = ask(header);
    await clock.advance(5_000);
    return answer;
  };

  it("says which keys were changed, revoked or deleted, as soon as it has read so", async () => {
    const notified: string[] = [];
    ring.watch((id) => notified.push(id));
    const [kept, revoked, deleted] = [make(), make(), make()];
    nodes.put("a", kept.key, revoked.key, deleted.key);
    ring.start();
    await settle();
    assert.deepEqual(notified, [], "they are new");
    nodes.put("a", changed(revoked.key, { revokedAtMs: 1 }));
    await clock.advance(1_000);
    assert.deepEqual(notified, [revoked.key.id]);
    nodes.keys.get("a")?.delete(deleted.key.id);
    await clock.advance(60_000);
    assert.deepEqual(notified, [revoked.key.id, deleted.key.id]);
  });

  it("looks no unknown key up where too many were refused, and knows the others", async () => {
    const [known, unknown] = [make(), make()];
    nodes.put("a", known.key);
    ring.start();
    await settle();
    const asked = nodes.asked.length;
    assert.equal((await ring.authenticate(known.header, true)).id, known.key.id);
    await assert.rejects(ring.authenticate(unknown.header, true), { code: "rate_limited" });
    assert.equal(nodes.asked.length, asked);
  });

  it("knows what the store holds, as principals", async () => {
    const { key, header } = make({ owner: "shop", scopes: ["write", "admin"] });
    nodes.put("a", key);
    assert.ok(!ring.isLoaded);
    ring.start();
    await settle();
    assert.ok(ring.isLoaded);
    const principal = await ring.authenticate(header);
    assert.deepEqual(principal, {
      id: key.id,
      owner: ownerTag("shop"),
      role: "app_orders",
      scopes: new Set(["write", "admin"]),
      limits: DEFAULT_LIMITS,
    });
    assert.equal(nodes.asked.length, 1, "a known key needs no question to the database");
  });

  it("refuses another secret at once, and what is no key", async () => {
    const { key } = make();
    nodes.put("a", key);
    ring.start();
    await settle();
    const { text } = makeKeyText();
    assert.equal(await ask(`Bearer hwk_${key.id}_${text.slice(-43)}`), "unauthenticated");
    assert.equal(await ask("Bearer eyJhbGciOiJub25lIn0.e30."), "unauthenticated");
    assert.equal(nodes.asked.length, 1);
  });

  it("learns changes within a refresh, and reads only those", async () => {
    const one = make();
    nodes.put("a", one.key);
    ring.start();
    await settle();
    nodes.put("a", changed(one.key, { revokedAtMs: 1 }));
    assert.equal(await ask(one.header), one.key.id);
    await clock.advance(1_000);
    assert.equal(await ask(one.header), "unauthenticated");
    assert.deepEqual(nodes.asked.at(-1), { node: "a", after: one.key.changed });
    await clock.advance(60_000);
    assert.ok(
      nodes.asked.slice(2).some(({ after }) => after === null),
      "and all of them once in a while",
    );
  });

  it("refuses an expired key by the clock, with no word from the store", async () => {
    const { key, header } = make({ expiresAtMs: clock.wallMs() + 10_000 });
    nodes.put("a", key);
    ring.start();
    await clock.advance(9_999);
    assert.equal(await ask(header), key.id);
    nodes.keys.clear();
    await clock.advance(1);
    assert.equal(await ask(header), "unauthenticated");
    await assert.rejects(ring.authenticate(header), /expired/);
  });

  it("finds a key that was created a moment ago", async () => {
    ring.start();
    await clock.advance(100);
    const { key, header } = make();
    nodes.put("a", key);
    const answer = ask(header);
    await clock.advance(150);
    assert.equal(await answer, key.id);
  });

  it("does not take an answer that was on its way before the key was created for the last word", async () => {
    let open = (): void => undefined;
    nodes.gate = new Promise((resolve) => (open = resolve));
    ring.start();
    await settle();
    const { key, header } = make();
    nodes.put("a", key);
    const answer = ask(header);
    nodes.gate = null;
    open();
    await clock.advance(250);
    assert.equal(await answer, key.id);
  });

  it("asks at most once in 250 ms for the sake of unknown keys, however many come", async () => {
    ring.start();
    await settle();
    const answers = new Set<string>();
    for (let count = 0; count < 100; count++) {
      void ask(make().header).then((answer) => answers.add(answer));
      await clock.advance(10);
    }
    await clock.advance(300);
    assert.deepEqual([...answers], ["unauthenticated"]);
    assert.ok(nodes.asked.length <= 1 + 1_300 / 250 + 2, `${String(nodes.asked.length)} questions`);
    nodes.gate = new Promise(() => undefined);
    const waiting = Array.from({ length: 1_001 }, () => ask(make().header));
    assert.equal(await waiting.at(-1), "authentication_unavailable", "those who wait are bounded as well");
  });

  it("keeps its keys while no node answers, and logs that once", async () => {
    const { key, header } = make();
    nodes.put("a", key);
    ring.start();
    await settle();
    nodes.keys.clear();
    await clock.advance(120_000);
    assert.equal(await ask(header), key.id);
    assert.equal(
      await askLong(make().header),
      "authentication_unavailable",
      "it is not known that it does not exist",
    );
    assert.deepEqual(log.events, ["keys_unreadable"]);
    nodes.put("a", key);
    await clock.advance(1_000);
    assert.deepEqual(log.events, ["keys_unreadable", "keys_readable"]);
  });

  it("answers nothing for certain before it has read the keys, nor while they do not arrive", async () => {
    nodes.keys.clear();
    ring.start();
    assert.equal(await askLong(make().header), "authentication_unavailable");
    nodes.put("a");
    nodes.gate = new Promise(() => undefined);
    assert.equal(await askLong(make().header), "authentication_unavailable");
  });

  it("reads from another node when the primary is silent, and takes nothing back from one that is behind", async () => {
    const kept = make();
    const revoked = make();
    const gone = make();
    nodes.put("b", kept.key, revoked.key);
    nodes.put("a", kept.key, changed(revoked.key, { revokedAtMs: 1 }), gone.key);
    ring.start();
    await settle();
    nodes.keys.delete("a");
    primaryEpoch = null;
    const late = make();
    nodes.put("b", late.key);
    await clock.advance(1_000);
    assert.equal(nodes.asked.at(-1)?.node, "b");
    assert.equal(await ask(kept.header), kept.key.id);
    assert.equal(await ask(late.header), late.key.id);
    assert.equal(await ask(revoked.header), "unauthenticated");
    assert.equal(await ask(gone.header), gone.key.id, "a replica may just not have it yet");
    assert.equal(
      await askLong(make().header),
      "authentication_unavailable",
      "nor may it have an unknown one",
    );
  });

  it("follows a failover: a key that it lost is gone, a revocation that it lost is not", async () => {
    const kept = make();
    const lost = make();
    const revoked = make();
    nodes.put("b", kept.key, revoked.key);
    nodes.put("a", kept.key, lost.key, changed(revoked.key, { revokedAtMs: 1 }));
    ring.start();
    await settle();
    primaryEpoch = { node: "b", epoch: "two" };
    await clock.advance(1_000);
    assert.deepEqual(nodes.asked.at(-1), { node: "b", after: null }, "another history is read wholly");
    assert.equal(await ask(kept.header), kept.key.id);
    assert.equal(await askLong(lost.header), "unauthenticated");
    assert.equal(await ask(revoked.header), "unauthenticated");
    primaryEpoch = { node: "b", epoch: "three" };
    await clock.advance(1_000);
    assert.deepEqual(nodes.asked.at(-1), { node: "b", after: null }, "so is another epoch of the same node");
  });

  it("stops, and closes its way to the store", async () => {
    ring.start();
    await settle();
    ring.stop();
    await settle();
    assert.equal(clock.pendingTimers > 1, false);
    const questions = nodes.asked.length;
    await clock.advance(10_000);
    assert.equal(nodes.asked.length, questions);
    assert.ok(nodes.isClosed);
  });
});
