// Faults of gateways and trackers: killed, restarted, paused, fewer gateways, all trackers at once,
// and a ledger with a torn end. None causes a loss.
import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type ServiceKind, trackerLocation } from "@highwater/lab-system";
import { type Scenario } from "../scenario.ts";

/** The remains of an unfinished write after a power failure. */
const TORN_BYTES = 777;

function killed(service: ServiceKind): Scenario {
  return {
    kind: `kill_${service}`,
    oneIn: 1,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const chosen = random.pick(world.system.services(service));
      aim(chosen.name);
      await chosen.kill();
      await pause(random.between(0, 4_000));
      await world.revive(chosen);
    },
  };
}

function restarted(service: ServiceKind): Scenario {
  return {
    kind: `restart_${service}`,
    oneIn: 1,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const chosen = random.pick(world.system.services(service));
      aim(chosen.name);
      await world.revive(chosen);
    },
  };
}

const EXTRA_LEVEL = "both";
/** Longer than every time limit of clients and of the services themselves. */
const LONG_PAUSE_MS = 60_000;
/** Of the gateways. */
const TAKEN_AWAY = 2;

function paused(service: ServiceKind, isLong: boolean): Scenario {
  return {
    kind: `${isLong ? "long_pause" : "pause"}_${service}`,
    oneIn: isLong ? 4 : 1,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const { name, pid } = random.pick(world.system.services(service));
      aim(name);
      if (pid === undefined) throw new Error(`${name} has no process`);
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
  {
    // An operator takes two of the four gateways away, and starts them again one by one, under the
    // same load.
    kind: "fewer_gateways",
    oneIn: 1,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const gateways = random.shuffle(world.system.services("gateway")).slice(0, TAKEN_AWAY);
      aim(gateways.map(({ name }) => name).join(", "));
      await Promise.all(gateways.map((gateway) => gateway.stop()));
      for (const gateway of gateways) {
        await pause(random.between(1_000, 5_000));
        await world.revive(gateway);
      }
    },
  },
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
      const trackers = system.services("tracker");
      await Promise.all(trackers.map((tracker) => tracker.kill()));
      await pause(awayMs);
      for (const tracker of random.shuffle(trackers)) await world.revive(tracker);
    },
  },
  {
    kind: "torn_ledger",
    oneIn: 2,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const region = random.pick(world.system.regions);
      aim(region);
      const tracker = world.system.tracker(region);
      await tracker.kill();
      const log = join(world.cluster.dir, "services", `ledger-${region}.sqlite-wal`);
      await appendFile(log, Buffer.alloc(TORN_BYTES, Math.floor(random.next() * 256)));
      await world.revive(tracker);
    },
  },
];
