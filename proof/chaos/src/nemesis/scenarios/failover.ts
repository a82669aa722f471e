// The primary fails and another node takes over: the best one, a laggard, one that few others have
// reached, twice in a row, a clean switch there and back, or beside a primary that still serves its
// own clients.
import { setTimeout as pause } from "node:timers/promises";
import { readCheckpoint } from "../pg-control.ts";
import { type Scenario, type Stage } from "../scenario.ts";
import { byPosition, type World } from "../world.ts";

/** How long the survivors run without the lost node, in milliseconds. */
const DEGRADED_MIN = 1_500;
const DEGRADED_MAX = 5_000;

export function best(observed: Parameters<typeof byPosition>[0]): string {
  const [furthest] = byPosition(observed);
  if (furthest === undefined) throw new Error("no replica answers");
  return furthest;
}

const degraded = ({ random }: Stage): Promise<void> => pause(random.between(DEGRADED_MIN, DEGRADED_MAX));

/** True: an operator's command names the new primary. False: the services find it themselves. */
const byCommand = ({ random }: Stage): boolean => random.chance(0.7);

export const FAILOVER: readonly Scenario[] = [
  {
    kind: "lose_region",
    oneIn: 1,
    needs: ["services"],
    run: async (stage) => {
      const { world } = stage;
      const lost = world.regionOf(world.primary);
      const command = byCommand(stage);
      stage.aim(lost);
      await world.system.killRegion(lost);
      const observed = await world.observe();
      await world.promote(best(observed), observed, { kind: "promotion", command });
      await world.followed(world.system.regions.filter((region) => region !== lost));
      await degraded(stage);
      await Promise.all([world.reviveServices(lost), world.mend()]);
    },
  },
  {
    kind: "lose_primary",
    oneIn: 1,
    needs: [],
    run: async (stage) => {
      const { world } = stage;
      const command = byCommand(stage);
      stage.aim(world.primary);
      await world.cluster.kill(world.primary);
      const observed = await world.observe();
      await world.promote(best(observed), observed, { kind: "promotion", command });
      await world.followed();
      await degraded(stage);
      await world.mend();
    },
  },
  {
    kind: "promote_laggard",
    oneIn: 1,
    needs: ["network"],
    run: async (stage) => {
      const { world, random } = stage;
      const laggard = random.pick(world.replicas);
      stage.aim(`${world.primary} > ${laggard}`);
      try {
        await world.cluster.link(world.regionOf(world.primary), world.regionOf(laggard)).cut();
        await pause(random.between(1_000, 3_000));
        await world.cluster.kill(world.primary);
        const observed = await world.observe();
        await world.promote(laggard, observed, { kind: "promotion" });
      } finally {
        await world.cluster.healAll();
      }
      await world.followed();
      // The other replica is ahead, and to the primary it still seems to follow.
      await degraded(stage);
      await world.mend();
    },
  },
  {
    kind: "promote_unobserved",
    oneIn: 1,
    needs: [],
    run: async (stage) => {
      const { world, random } = stage;
      const [promoted = "", silent = ""] = random.shuffle(world.replicas);
      const isPaused = random.chance(0.5);
      stage.aim(`${world.primary}, ${silent}`);
      await world.cluster[isPaused ? "pause" : "kill"](silent);
      await pause(random.between(500, 3_000));
      await world.cluster.kill(world.primary);
      const observed = await world.observe();
      await world.promote(promoted, observed, { kind: "promotion" });
      await world.followed();
      await degraded(stage);
      await world.mend();
    },
  },
  {
    kind: "double_failover",
    oneIn: 1,
    needs: [],
    run: async (stage) => {
      const { world } = stage;
      stage.aim(world.primary);
      await world.cluster.kill(world.primary);
      const observed = await world.observe();
      const second = best(observed);
      await world.promote(second, observed, { kind: "promotion" });
      const [third] = world.replicas.filter((id) => !world.suspects.has(id));
      if (third === undefined) throw new Error("the other replica cannot follow");
      // A PostgreSQL that is promoted before it has received the place where a new timeline begins
      // panics: it reads the last record in that timeline's segment, which ends before it.
      await world.caughtUp(third);
      await world.cluster.kill(second);
      await world.promote(third, await world.observe(), { kind: "promotion" });
      await world.followed();
      await degraded(stage);
      await world.mend();
    },
  },
  {
    // The second primary fails while gateways bring back what the first one's failure has lost. The
    // third has none of that.
    kind: "failover_during_replay",
    oneIn: 1,
    needs: ["network"],
    impossible: ({ replays }) => Promise.resolve(replays ? null : "nothing is kept (REPLAY=1)"),
    run: async (stage) => {
      const { world, random } = stage;
      const first = world.primary;
      stage.aim(first);
      const linkOf = (one: string, other: string) =>
        world.cluster.link(world.regionOf(one), world.regionOf(other));
      try {
        await Promise.all(world.replicas.map((id) => linkOf(first, id).cut()));
        await pause(random.between(1_000, 3_000));
        await world.cluster.kill(first);
        const observed = await world.observe();
        await world.promote(best(observed), observed, { kind: "promotion", command: byCommand(stage) });
      } finally {
        await world.cluster.healAll();
      }
      await world.followed();
      const second = world.primary;
      const third = world.replicas.find((id) => !world.suspects.has(id));
      if (third === undefined) throw new Error("the other replica cannot follow");
      await world.caughtUp(third);
      let replaying = Promise.resolve();
      try {
        await linkOf(second, third).cut();
        replaying = world.replay(world.regionOf(second));
        await Promise.race([replaying, pause(random.between(200, 2_500))]);
        await world.cluster.kill(second);
        await world.promote(third, await world.observe(), { kind: "promotion" });
      } finally {
        await world.cluster.healAll();
      }
      await world.followed();
      await replaying;
      await degraded(stage);
      await world.mend();
    },
  },
  {
    kind: "zombie_primary",
    oneIn: 1,
    needs: ["network"],
    run: async (stage) => {
      const { world, random } = stage;
      const zombie = world.primary;
      const region = world.regionOf(zombie);
      const command = byCommand(stage);
      stage.aim(zombie);
      try {
        // The zombie's own clients, gateway and tracker notice nothing.
        await world.cluster.isolate(region);
        const observed = await world.observe();
        await world.promote(best(observed), observed, { kind: "promotion", command });
        await world.followed(world.system.regions.filter((other) => other !== region));
        await degraded(stage);
        if (random.chance(0.4)) await world.cluster.crashBackend(zombie);
      } finally {
        await world.cluster.healAll();
      }
      await degraded(stage);
      await world.followed();
      await world.mend();
    },
  },
  {
    kind: "old_primary_beside",
    oneIn: 1,
    needs: [],
    run: async (stage) => {
      const { world, random } = stage;
      const old = world.primary;
      stage.aim(old);
      await world.cluster.kill(old);
      const observed = await world.observe();
      await world.promote(best(observed), observed, { kind: "promotion", command: byCommand(stage) });
      const isHasty = random.chance(0.3);
      if (!isHasty) await world.followed();
      await world.cluster.startAsPrimary(old);
      await degraded(stage);
      await world.followed();
      await world.mend();
    },
  },
  {
    kind: "switchover",
    oneIn: 1,
    needs: [],
    run: async (stage) => {
      const { world, random } = stage;
      const first = world.primary;
      stage.aim(first);
      await handOver(world);
      await degraded(stage);
      if (world.suspects.has(first) || random.chance(0.3)) return world.mend();
      await handOver(world, first);
      await world.mend();
    },
  },
];

/**
 * Stops the primary cleanly: its shutdown checkpoint shows which position has everything. The old
 * primary then follows.
 */
async function handOver(world: World, to?: string): Promise<void> {
  const old = world.primary;
  await world.cluster.stop(old);
  const checkpoint = await readCheckpoint(world.node(old).dataDir);
  const observed = await world.observe();
  const promoted = to ?? best(observed);
  const position = observed.find(({ node }) => node === promoted)?.position ?? 0n;
  const isComplete = position > checkpoint;
  await world.promote(promoted, observed, { kind: "switchover", isComplete });
  await world.followed();
  if (!isComplete) return;
  const copy = await world.cluster.snapshot(old);
  await world.cluster.restore(old, copy, { as: "replica", upstream: promoted });
  await world.discard(copy);
  await world.cluster.start(old);
  await world.isWhole(old);
}
