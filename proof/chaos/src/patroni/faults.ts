// The faults of a cluster under Patroni, each a real one: hosts, Patroni, PostgreSQL, etcd and the
// links between them. After each fault the nemesis waits until Patroni has repaired what it can,
// and starts what was killed.
import { setTimeout as pause } from "node:timers/promises";
import { type Card } from "../nemesis/deck.ts";
import { type Random } from "../nemesis/random.ts";
import { fillDisk, fillQuota, slowDownDisk, withoutStrace } from "./etcd-disk.ts";
import { type PatroniSystem } from "./system.ts";

interface Stage {
  readonly system: PatroniSystem;
  readonly random: Random;
  /** The member that led when the fault began. */
  readonly leader: string;
  readonly standbys: readonly string[];
  /** Names the target, for the record. */
  readonly aim: (target: string) => void;
}

export interface PatroniFault extends Card {
  /** The reason why this machine cannot do it; null if it can. */
  readonly impossible?: () => Promise<string | null>;
  run(stage: Stage): Promise<void>;
}

/**
 * A dead leader's key stays until its lease ends, for up to 20 s. Most runs do not wait for that.
 */
async function leaseEnds({ system, random }: Stage): Promise<void> {
  if (random.chance(0.75)) await system.patroni.revokeLease();
}

/**
 * Waits until another member leads, or for the limit: with too few members left, Patroni rightly
 * promotes none.
 */
async function takenOver({ system, leader }: Stage, limitMs: number): Promise<void> {
  const untilMs = performance.now() + limitMs;
  while (performance.now() < untilMs) {
    const now = await system.patroni.leader();
    if (now !== undefined && now !== leader) return;
    await pause(100);
  }
}

const fault = (kind: string, run: PatroniFault["run"], oneIn = 1): PatroniFault => ({ kind, oneIn, run });

const HOSTS = [
  fault("kill_leader_host", async (stage) => {
    stage.aim(stage.leader);
    await stage.system.patroni.kill(stage.leader);
    await leaseEnds(stage);
    await takenOver(stage, 25_000);
    await pause(stage.random.between(0, 3_000));
  }),
  fault("kill_standby_host", async ({ system, random, standbys, aim }) => {
    const standby = random.pick(standbys);
    aim(standby);
    await system.patroni.kill(standby);
    await pause(random.between(1_000, 6_000));
  }),
  fault(
    "kill_leader_and_standby",
    async (stage) => {
      const standby = stage.random.pick(stage.standbys);
      stage.aim(`${stage.leader}, ${standby}`);
      await stage.system.patroni.kill(standby);
      // Shorter or longer than Patroni needs to remove a dead standby from its list, about a
      // second.
      await pause(stage.random.between(0, 5_000));
      await stage.system.patroni.kill(stage.leader);
      await leaseEnds(stage);
      await takenOver(stage, stage.random.between(3_000, 8_000));
    },
    2,
  ),
];

const PATRONI = [
  fault("kill_leader_patroni", async (stage) => {
    stage.aim(stage.leader);
    await stage.system.patroni.killPatroni(stage.leader);
    await leaseEnds(stage);
    await takenOver(stage, 25_000);
    // The old server keeps running beside the new one.
    await pause(stage.random.between(0, 3_000));
  }),
  fault(
    "kill_standby_patroni",
    async ({ system, random, standbys, aim }) => {
      const standby = random.pick(standbys);
      aim(standby);
      await system.patroni.killPatroni(standby);
      await pause(random.between(500, 4_000));
    },
    2,
  ),
  fault("freeze_leader_patroni", async (stage) => {
    stage.aim(stage.leader);
    await stage.system.patroni.freeze(stage.leader, "patroni");
    if (stage.random.chance(0.5)) {
      await leaseEnds(stage);
      await takenOver(stage, 25_000);
    } else await pause(stage.random.between(500, 8_000));
  }),
  fault("switchover", async ({ system, leader, standbys, random, aim }) => {
    aim(leader);
    // A candidate that Patroni refuses is also a valid case.
    const body = { leader, ...(random.chance(0.5) && { candidate: random.pick(standbys) }) };
    await system.patroni.rest(leader, "POST", "/switchover", body).catch(() => undefined);
  }),
  fault(
    "clean_restart",
    async ({ system, leader, aim }) => {
      aim(leader);
      await system.patroni.rest(leader, "POST", "/restart", {}).catch(() => undefined);
    },
    2,
  ),
];

const SERVERS = [
  fault("kill_leader_server", async ({ system, leader, aim }) => {
    aim(leader);
    await system.patroni.killServer(leader);
    await pause(2_000);
  }),
  fault(
    "kill_standby_server",
    async ({ system, random, standbys, aim }) => {
      const standby = random.pick(standbys);
      aim(standby);
      await system.patroni.killServer(standby);
      await pause(2_000);
    },
    2,
  ),
  fault("kill_backend", async ({ system, leader, aim }) => {
    aim(leader);
    await system.patroni.crashBackend(leader);
    await pause(2_000);
  }),
  fault("freeze_leader_server", async (stage) => {
    stage.aim(stage.leader);
    await stage.system.patroni.freeze(stage.leader, "server");
    await pause(stage.random.between(500, 9_000));
  }),
  fault(
    "freeze_standby_server",
    async ({ system, random, standbys, aim }) => {
      const standby = random.pick(standbys);
      aim(standby);
      await system.patroni.freeze(standby, "server");
      await pause(random.between(500, 6_000));
    },
    2,
  ),
  fault("starve_standby", async ({ system, random, leader, standbys, aim }) => {
    const standby = random.pick(standbys);
    aim(standby);
    const feed = await system.patroni.starve(standby, leader);
    try {
      await pause(random.between(500, 4_000));
    } finally {
      feed();
    }
  }),
];

const WAYS = [
  fault("stop_etcd", async ({ system, random, aim }) => {
    aim("etcd");
    await system.etcd.stop();
    await pause(random.between(500, 12_000));
    await system.etcd.start();
  }),
  fault("cut_leader_from_etcd", async (stage) => {
    const { system, random, leader, aim } = stage;
    aim(leader);
    await system.patroni.cutFromEtcd(leader, { mode: random.pick(["blackhole", "reset"]) });
    if (random.chance(0.5)) {
      await leaseEnds(stage);
      await takenOver(stage, 12_000);
    } else await pause(random.between(500, 8_000));
  }),
  fault(
    "cut_standby_from_etcd",
    async ({ system, random, standbys, aim }) => {
      const standby = random.pick(standbys);
      aim(standby);
      await system.patroni.cutFromEtcd(standby, { mode: random.pick(["blackhole", "reset"]) });
      await pause(random.between(500, 6_000));
    },
    2,
  ),
  fault("cut_leader_from_standbys", async ({ system, random, leader, aim }) => {
    aim(leader);
    await system.patroni.cutFromOthers(leader, { mode: random.pick(["blackhole", "reset"]) });
    await pause(random.between(500, 6_000));
  }),
  fault("isolate_leader", async (stage) => {
    const { system, leader, standbys, aim } = stage;
    aim(leader);
    // No member reaches another one, and the leader does not reach etcd. The services still reach
    // the leader.
    await system.patroni.cutFromEtcd(leader);
    for (const id of [leader, ...standbys]) await system.patroni.cutFromOthers(id);
    await leaseEnds(stage);
    await takenOver(stage, 25_000);
  }),
];

/**
 * Faults of etcd's disk. One server stands for a whole etcd. A bad disk under a minority of its
 * members is not tested.
 */
const ETCD_DISK: readonly PatroniFault[] = [
  {
    // Each write takes up to three seconds, and linearizable reads wait for it.
    ...fault("etcd_disk_slow", async (stage) => {
      const { system, random, leader, aim } = stage;
      const isLeaderLost = random.chance(0.4);
      aim(isLeaderLost ? `etcd, ${leader}` : "etcd");
      const relieve = await slowDownDisk(system.etcd, random.between(300, 3_000));
      try {
        await pause(random.between(1_000, 6_000));
        if (isLeaderLost) {
          await system.patroni.kill(leader);
          await takenOver(stage, 25_000);
        } else await pause(random.between(1_000, 12_000));
      } finally {
        await relieve();
        // This etcd panics when the caller of a slow transaction gives up ("unexpected error during
        // txn"). A service manager would restart it.
        if ((await system.etcd.pid()) === undefined) {
          await system.etcd.stop();
          await system.etcd.start();
        }
      }
    }),
    impossible: withoutStrace,
  },
  {
    ...fault("etcd_disk_full", async ({ system, random, aim }) => {
      aim("etcd");
      try {
        await fillDisk(system.etcd);
        await pause(random.between(500, 12_000));
      } finally {
        await system.etcd.stop();
        await system.etcd.start();
      }
    }),
    impossible: withoutStrace,
  },
  fault("etcd_quota_full", async (stage) => {
    const { system, random, leader, aim } = stage;
    const isLeaderLost = random.chance(0.4);
    aim(isLeaderLost ? `etcd, ${leader}` : "etcd");
    const makeRoom = await fillQuota(system.etcd);
    try {
      await pause(random.between(1_000, 6_000));
      if (isLeaderLost) {
        await system.patroni.kill(leader);
        await takenOver(stage, random.between(5_000, 25_000));
      } else await pause(random.between(1_000, 20_000));
    } finally {
      await makeRoom();
    }
  }),
];

export const PATRONI_FAULTS: readonly PatroniFault[] = [
  ...HOSTS,
  ...PATRONI,
  ...SERVERS,
  ...WAYS,
  ...ETCD_DISK,
];

export const SERVICE_FAULTS: readonly PatroniFault[] = (["gateway", "tracker"] as const).flatMap((which) => [
  fault(`kill_${which}`, async ({ system, random, aim }) => {
    const region = random.pick(system.regions);
    aim(region);
    await system.service(region, which).kill();
    await pause(random.between(0, 4_000));
  }),
  fault(`pause_${which}`, async ({ system, random, aim }) => {
    const region = random.pick(system.regions);
    aim(region);
    const { pid } = system.service(region, which);
    if (pid !== undefined) process.kill(pid, "SIGSTOP");
    await pause(random.between(500, 7_000));
  }),
]);
