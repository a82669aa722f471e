// Histories that contradict each other: older copies, an old primary that an operator chooses
// again, two nodes on one timeline. Some break promises, and the product has to report it.
import { setTimeout as pause } from "node:timers/promises";
import { type Scenario } from "../scenario.ts";
import { copyDatabase } from "../database-copy.ts";
import { best } from "./failover.ts";

const ATTACHED_MIN = 1_500;
const ATTACHED_MAX = 4_500;

export const HISTORIES: readonly Scenario[] = [
  {
    kind: "older_replica",
    oneIn: 1,
    needs: [],
    run: async ({ world, random, aim }) => {
      const node = random.pick(world.replicas);
      aim(node);
      const copy = await world.cluster.snapshot(node);
      await pause(random.between(1_000, 4_000));
      await world.cluster.kill(node);
      world.suspects.add(node);
      await world.cluster.restore(node, copy, { as: "replica", upstream: world.primary });
      await world.discard(copy);
      await world.cluster.start(node);
      await world.isWhole(node);
    },
  },
  {
    kind: "older_primary",
    oneIn: 3,
    needs: [],
    run: async ({ world, random, aim }) => {
      const node = world.primary;
      aim(node);
      const copy = await world.cluster.snapshot(node);
      await pause(random.between(1_000, 4_000));
      await world.cluster.kill(node);
      await world.cluster.restore(node, copy, { as: "primary" });
      await world.discard(copy);
      world.brokeEverything("restore", node);
      await world.cluster.start(node);
      await world.followed();
      // Meanwhile the replicas, which have the newer history, are attached.
      await pause(random.between(ATTACHED_MIN, ATTACHED_MAX));
      await world.mend();
    },
  },
  {
    // Acts like a logical restore: the server keeps running, and its database is replaced by an
    // older one.
    kind: "restored_database",
    oneIn: 3,
    needs: [],
    run: async ({ world, random, aim }) => {
      aim(world.primary);
      const copy = await copyDatabase(world);
      await pause(random.between(1_000, 4_000));
      await copy.swapIn(() => {
        world.brokeInPlace("database_restore");
      });
      await world.followed();
    },
  },
  {
    kind: "old_primary_back",
    oneIn: 3,
    needs: [],
    run: async ({ world, random, aim }) => {
      const old = world.primary;
      aim(old);
      await world.cluster.kill(old);
      const observed = await world.observe();
      const promoted = best(observed);
      await world.promote(promoted, observed, { kind: "promotion" });
      await world.followed();
      await pause(random.between(ATTACHED_MIN, ATTACHED_MAX));
      if (random.chance(0.5)) await world.cluster.kill(promoted);
      world.brokeEverything("given_back", old);
      await world.cluster.startAsPrimary(old);
      await world.authorize("the older data is what we want");
      await world.followed();
      await pause(random.between(ATTACHED_MIN, ATTACHED_MAX));
      await world.mend();
    },
  },
  {
    kind: "same_timeline",
    oneIn: 2,
    needs: ["network"],
    run: async ({ world, random, aim }) => {
      const { cluster, system } = world;
      const [chosen = "", other = ""] = random.shuffle(world.replicas);
      const apart = world.regionOf(other);
      aim(`${chosen}, ${other}`);
      try {
        await cluster.isolate(apart);
        await pause(random.between(300, 1_500));
        await cluster.kill(world.primary);
        const observed = await world.observe();
        // Without a command neither history ends the other, and gateways refuse writes until an
        // operator chooses.
        await world.promote(chosen, observed, { kind: "promotion", command: random.chance(0.3) });
        await world.followed(system.regions.filter((region) => region !== apart));
        // To the isolated region this node is a successor as well, with the same timeline number.
        world.suspects.add(other);
        await cluster.promote(other, { command: false, repoint: false });
        await pause(random.between(ATTACHED_MIN, ATTACHED_MAX));
      } finally {
        await cluster.healAll();
      }
      await pause(random.between(500, 2_500));
      await world.settled(other);
      await world.authorize("one of two histories");
      await world.followed();
      // Attaches the node with the wrong history to the right one, where it seems to follow.
      await cluster.stop(other, "immediate");
      const copy = await cluster.snapshot(other);
      await cluster.restore(other, copy, { as: "replica", upstream: chosen });
      await world.discard(copy);
      // It may notice the conflict and refuse to start.
      await cluster.start(other).catch(() => undefined);
      await pause(random.between(ATTACHED_MIN, ATTACHED_MAX));
      await world.mend();
    },
  },
  {
    kind: "authorize",
    oneIn: 2,
    needs: [],
    run: async ({ world, aim }) => {
      aim(world.primary);
      world.wentOnInPlace("authorize");
      await world.authorize("a drill");
      await world.followed();
    },
  },
];
