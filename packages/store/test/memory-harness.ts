// The conformance harness of the memory store: the caller's steps are taken at once, in one process.
import { makeUuidV7, type Offset, type TxnId } from "@highwater/protocol";
import { type ConformanceHarness } from "../src/conformance/harness.ts";
import { type MemorySnapshot, MemoryStore, MemoryWorld } from "../src/memory.ts";

const NODES = [
  { id: "east", region: "east", zone: "east-a" },
  { id: "west", region: "west", zone: "west-a" },
  { id: "north", region: "north", zone: "north-a" },
];
const RETENTION_MS = 3_600_000;
const START_MS = Date.UTC(2030, 0, 1);

export async function makeMemoryHarness(origin?: Offset): Promise<ConformanceHarness> {
  let nowMs = START_MS;
  let ids = 0;
  const wallMs = (): number => nowMs++;
  const from = origin === undefined ? {} : { origin };
  const world = new MemoryWorld({ nodes: NODES, wallMs, retentionMs: RETENTION_MS, ...from });
  const [primary, ...replicas] = NODES.map(({ id }) => id);
  const now = async (step: () => unknown): Promise<void> => {
    step();
    return Promise.resolve();
  };
  return Promise.resolve({
    store: new MemoryStore({ world, helper: "one" }),
    otherStore: new MemoryStore({ world, helper: "two" }),
    primary: primary ?? "",
    replicas: replicas as [string, string],
    retentionMs: RETENTION_MS,
    statements: {
      put: (key, value) => ({ sql: "put $1 $2", params: [key, value] }),
      get: (key) => ({ sql: "get $1", params: [key] }),
      failing: { sql: "fail 23502" },
      slow: { sql: "slow" },
    },
    newId: (ageMs = 0): TxnId => {
      const unique = new Uint8Array(10);
      new DataView(unique.buffer).setUint32(6, ++ids);
      return makeUuidV7(wallMs() - ageMs, unique);
    },
    untilSlowRuns: () => Promise.resolve(),
    catchUp: (replica) => now(() => world.replicate(replica)),
    holdFlush: () => Promise.resolve(),
    writePastTheService: (node, bytes) =>
      now(() => {
        world.noise(node, bytes);
        world.flush(node);
      }),
    crash: (node) =>
      now(() => {
        world.crash(node);
      }),
    kill: (node) =>
      now(() => {
        world.kill(node);
      }),
    stop: (node) =>
      now(() => {
        world.stop(node);
      }),
    start: (node) =>
      now(() => {
        world.start(node);
      }),
    cleanRestart: (node) =>
      now(() => {
        world.cleanRestart(node);
      }),
    promote: (node) =>
      now(() => {
        world.promote(node);
      }),
    follow: (node, upstream) =>
      now(() => {
        world.follow(node, upstream);
      }),
    setSynchronous: (node, chosen) =>
      now(() => {
        world.setSynchronous(node, chosen);
      }),
    cut: (node) =>
      now(() => {
        world.cut(node);
      }),
    heal: (node) =>
      now(() => {
        world.heal(node);
      }),
    authorize: (node, overrules = []) => now(() => world.authorize(node, overrules)),
    snapshot: (node) => Promise.resolve(world.snapshot(node)),
    restore: (node, snapshot, as) =>
      now(() => {
        const copy = snapshot as MemorySnapshot;
        world.restore(
          node,
          copy,
          as === "primary" ? { role: as } : { role: "replica", upstream: as.replicaOf },
        );
        world.start(node);
      }),
    close: () => Promise.resolve(),
  });
}
