// Faults of gateways and trackers: killed, restarted, paused, all trackers at once, and a ledger
// with a torn end. None causes a loss.
import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type ServiceKind, trackerLocation } from "@highwater/lab-system";
import { type Scenario } from "../scenario.ts";
import { type World } from "../world.ts";

/** The remains of an unfinished write after a power failure. */
const TORN_BYTES = 777;

async function killThenStart(
  world: World,
  region: string,
  service: ServiceKind,
  awayMs: number,
): Promise<void> {
  await world.system[service](region).kill();
  await pause(awayMs);
  await world.revive(region, service);
}

function killed(service: ServiceKind): Scenario {
  return {
    kind: `kill_${service}`,
    oneIn: 1,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const region = random.pick(world.system.regions);
      aim(region);
      await killThenStart(world, region, service, random.between(0, 4_000));
    },
  };
}

function restarted(service: ServiceKind): Scenario {
  return {
    kind: `restart_${service}`,
    oneIn: 1,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const region = random.pick(world.system.regions);
      aim(region);
      await world.revive(region, service);
    },
  };
}

const EXTRA_LEVEL = "both";
/** Longer than every time limit of clients and of the services themselves. */
const LONG_PAUSE_MS = 60_000;

function paused(service: ServiceKind, isLong: boolean): Scenario {
  return {
    kind: `${isLong ? "long_pause" : "pause"}_${service}`,
    oneIn: isLong ? 4 : 1,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const region = random.pick(world.system.regions);
      aim(region);
      const { pid } = world.system[service](region);
      if (pid === undefined) throw new Error(`the ${service} of ${region} has no process`);
      try {
        process.kill(pid, "SIGSTOP");
        await pause(isLong ? LONG_PAUSE_MS : random.between(500, 7_000));
      } finally {
        process.kill(pid, "SIGCONT");
      }
    },
  };
}

export const SERVICES: readonly Scenario[] = [
  killed("gateway"),
  restarted("gateway"),
  paused("gateway", false),
  paused("gateway", true),
  killed("tracker"),
  restarted("tracker"),
  paused("tracker", false),
  paused("tracker", true),
  {
    // The tracker does not see the database, but its gateways do.
    kind: "blind_tracker",
    oneIn: 1,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const region = random.pick(world.system.regions);
      aim(region);
      const link = world.cluster.link(trackerLocation(region), region);
      try {
        await link.cut({ mode: random.chance(0.5) ? "reset" : "blackhole" });
        await pause(random.between(1_000, 20_000));
      } finally {
        await link.heal();
      }
    },
  },
  {
    // Services differ in their levels for a while: some have an additional level, which trackers
    // count and later forget.
    kind: "levels_changed",
    oneIn: 2,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const { system, rules } = world;
      aim(system.regions.join(", "));
      const change = async (levels: typeof rules): Promise<void> => {
        for (const region of random.shuffle(system.regions)) {
          await system.changeLevels(region, levels);
          await pause(random.between(0, 2_000));
        }
      };
      const more = Object.entries(rules).toSpliced(-1, 0, [EXTRA_LEVEL, { replicas: 2, outside: "region" }]);
      try {
        await change(Object.fromEntries(more));
        await pause(random.between(1_000, 6_000));
      } finally {
        await change(rules);
      }
    },
  },
  {
    kind: "kill_all_trackers",
    oneIn: 2,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const { system } = world;
      aim(system.regions.join(", "));
      const awayMs = random.between(0, 3_000);
      await Promise.all(system.regions.map((region) => system.tracker(region).kill()));
      await pause(awayMs);
      for (const region of random.shuffle(system.regions)) await world.revive(region, "tracker");
    },
  },
  {
    kind: "torn_ledger",
    oneIn: 2,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const region = random.pick(world.system.regions);
      aim(region);
      await world.system.tracker(region).kill();
      const log = join(world.cluster.dir, "services", `ledger-${region}.sqlite-wal`);
      await appendFile(log, Buffer.alloc(TORN_BYTES, Math.floor(random.next() * 256)));
      await world.revive(region, "tracker");
    },
  },
];
