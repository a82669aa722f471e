// Nodes that fail and keep their role: the primary recovers on its own timeline and reuses offsets,
// a replica resumes where it was. Every level keeps its promises.
import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { eventually } from "@highwater/lab-tools/process";
import { type Scenario } from "../scenario.ts";
import { serverProcesses, signalAll } from "../server-processes.ts";
import { killUnflushed } from "../unflushed.ts";
import { type World } from "../world.ts";

const run = promisify(execFile);
const LONG_PAUSE_MS = 60_000;
const STALLS_MIN = 2;
const STALLS_MAX = 8;
/** What the database's owner can do to the service's tables while it runs. */
const OWNER_DDL: readonly string[] = [
  "ALTER TABLE highwater.epoch_sentinel SET LOGGED",
  "VACUUM FULL highwater.epoch_sentinel",
  "VACUUM FULL highwater.witness",
  "DO $$ BEGIN LOCK TABLE highwater.receipt IN ACCESS EXCLUSIVE MODE; PERFORM pg_sleep(3); END $$",
  "DO $$ BEGIN LOCK TABLE highwater.epoch IN ACCESS EXCLUSIVE MODE; PERFORM pg_sleep(3); END $$",
];
const FULL_LIMIT_MS = 15_000;
/** A log file has 16 MiB, so nearly every write to it exceeds this. */
const FULL_BYTES = 64 * 1024;

const withoutPrlimit = (): Promise<string | null> =>
  run("prlimit", ["--version"]).then(
    () => null,
    () => "there is no prlimit",
  );

export const PRIMARY_IN_PLACE: readonly Scenario[] = [
  {
    kind: "kill_primary",
    oneIn: 1,
    needs: [],
    run: async ({ world, random, aim }) => {
      aim(world.primary);
      const awayMs = random.between(0, 2_500);
      await world.cluster.kill(world.primary);
      await pause(awayMs);
      world.wentOnInPlace("crash");
      await world.cluster.start(world.primary);
    },
  },
  {
    kind: "crash_backend",
    oneIn: 1,
    needs: [],
    run: async ({ world, aim }) => {
      aim(world.primary);
      world.wentOnInPlace("crash");
      await world.cluster.crashBackend(world.primary);
    },
  },
  {
    kind: "restart_primary",
    oneIn: 1,
    needs: [],
    run: async ({ world, aim }) => {
      aim(world.primary);
      world.wentOnInPlace("restart");
      await world.cluster.restart(world.primary);
    },
  },
  {
    kind: "pause_primary",
    oneIn: 1,
    needs: [],
    run: async ({ world, random, aim }) => {
      aim(world.primary);
      const forMs = random.between(500, 7_000);
      try {
        await world.cluster.pause(world.primary);
        await pause(forMs);
      } finally {
        await world.cluster.resume(world.primary);
      }
    },
  },
  {
    kind: "power_failure",
    oneIn: 1,
    needs: ["services"],
    run: async ({ world, random, aim }) => {
      const { system, cluster } = world;
      aim("everything");
      const awayMs = random.between(0, 1_500);
      const services = [...system.services("gateway"), ...system.services("tracker")];
      await Promise.all([
        ...services.map((service) => service.kill()),
        ...cluster.nodes.map(({ id }) => cluster.kill(id)),
      ]);
      await pause(awayMs);
      world.wentOnInPlace("crash");
      await Promise.all([
        ...cluster.nodes.map(({ id }) => cluster.start(id)),
        ...random.shuffle(system.services("tracker")).map((tracker) => world.revive(tracker)),
      ]);
      await Promise.all(random.shuffle(system.services("gateway")).map((gateway) => world.revive(gateway)));
    },
  },
  {
    // Longer than every time limit of clients, services and streams.
    kind: "long_pause_primary",
    oneIn: 4,
    needs: [],
    run: async ({ world, aim }) => {
      aim(world.primary);
      try {
        await world.cluster.pause(world.primary);
        await pause(LONG_PAUSE_MS);
      } finally {
        await world.cluster.resume(world.primary);
      }
    },
  },
  {
    // Stops the processes that write the log in the background: clients go on, and nothing reaches
    // the disk.
    kind: "stalling_disk",
    oneIn: 1,
    needs: [],
    run: async ({ world, random, aim }) => {
      aim(world.primary);
      const stalls = Math.round(random.between(STALLS_MIN, STALLS_MAX));
      for (let stall = 0; stall < stalls; stall++) {
        const writers = await logWriters(world);
        try {
          signalAll(writers, "SIGSTOP");
          await pause(random.between(200, 2_500));
        } finally {
          signalAll(writers, "SIGCONT");
        }
        await pause(random.between(20, 300));
      }
    },
  },
  {
    kind: "primary_disk_full",
    oneIn: 2,
    needs: [],
    impossible: withoutPrlimit,
    run: async ({ world, random, aim }) => {
      const node = world.primary;
      aim(node);
      await fillDisk(world, node);
      await pause(random.between(500, 3_000));
      const [found] = (await world.cluster.status()).filter(({ id }) => id === node);
      if (found?.state !== "stopped") await world.cluster.kill(node);
      world.wentOnInPlace("crash");
      await world.cluster.start(node);
    },
  },
  {
    kind: "lose_unflushed",
    oneIn: 1,
    needs: [],
    run: async ({ world, random, aim }) => {
      aim(world.primary);
      const awayMs = random.between(0, 1_500);
      const bytes = await killUnflushed(world);
      world.say(`${String(bytes)} bytes of log were written and not flushed`);
      await pause(awayMs);
      world.wentOnInPlace("crash");
      await world.cluster.start(world.primary);
    },
  },
  {
    // The database's owner may do this without bad intent.
    kind: "owner_ddl",
    oneIn: 1,
    needs: [],
    run: async ({ world, random, aim }) => {
      const sql = random.pick(OWNER_DDL);
      aim(sql);
      // Some of these end the epoch, without a loss.
      world.wentOnInPlace("owner_ddl");
      await world.cluster.query(world.primary, sql);
    },
  },
];

export const REPLICA_IN_PLACE: readonly Scenario[] = [
  {
    // The primary sees no stream of the second replica. Meanwhile the first one may fail.
    kind: "cascade",
    oneIn: 1,
    needs: [],
    run: async ({ world, random, aim }) => {
      const [first = "", second = ""] = random.shuffle(world.replicas);
      aim(`${second} behind ${first}`);
      try {
        await world.cluster.follow(second, first);
        await pause(random.between(500, 5_000));
        if (random.chance(0.5)) {
          await world.cluster.kill(first);
          await pause(random.between(0, 2_000));
          await world.cluster.start(first);
        }
        await pause(random.between(500, 3_000));
      } finally {
        await world.cluster.follow(second, world.primary);
      }
    },
  },
  {
    kind: "kill_replica",
    oneIn: 1,
    needs: [],
    run: async ({ world, random, aim }) => {
      const node = random.pick(world.replicas);
      aim(node);
      const awayMs = random.between(0, 4_000);
      await world.cluster.kill(node);
      await pause(awayMs);
      await world.cluster.start(node);
    },
  },
  {
    kind: "restart_replica",
    oneIn: 2,
    needs: [],
    run: async ({ world, random, aim }) => {
      const node = random.pick(world.replicas);
      aim(node);
      await world.cluster.restart(node);
    },
  },
  {
    kind: "pause_replica",
    oneIn: 1,
    needs: [],
    run: async ({ world, random, aim }) => {
      const node = random.pick(world.replicas);
      aim(node);
      const forMs = random.between(500, 7_000);
      try {
        await world.cluster.pause(node);
        await pause(forMs);
      } finally {
        await world.cluster.resume(node);
      }
    },
  },
  {
    kind: "replica_disk_full",
    oneIn: 1,
    needs: [],
    impossible: withoutPrlimit,
    run: async ({ world, random, aim }) => {
      const node = random.pick(world.replicas);
      aim(node);
      await fillDisk(world, node);
      // Each recovery hits the limit again, until someone makes room: a new process has no limit.
      await pause(random.between(500, 3_000));
      const [found] = (await world.cluster.status()).filter(({ id }) => id === node);
      if (found?.state !== "stopped") await world.cluster.kill(node);
      await world.cluster.start(node);
    },
  },
];

/**
 * Limits the server's files to a few pages. The error number is another one than on a full disk,
 * but the effect is the same: the log cannot be written, and the server goes down.
 */
async function fillDisk(world: World, node: string): Promise<void> {
  const { postmaster, children } = await serverProcesses(world, node);
  // Only the server's own user may set its limits.
  const { uid, gid } = await stat(world.node(node).dataDir);
  for (const pid of [postmaster, ...children])
    await run("prlimit", ["--pid", String(pid), `--fsize=${String(FULL_BYTES)}`], {
      uid,
      gid,
      cwd: "/",
    }).catch((cause: unknown) => {
      // A backend may have ended in the meantime.
      if (pid === postmaster) throw cause;
    });
  await eventually(
    `${node} is out of space`,
    async () => {
      const [found] = (await world.cluster.status()).filter(({ id }) => id === node);
      if (found?.state !== "replica") return found?.state !== "primary";
      const [row] = await world.cluster.query(node, "SELECT count(*)::int AS n FROM pg_stat_wal_receiver");
      return row?.["n"] === 0;
    },
    FULL_LIMIT_MS,
  );
}

const LOG_WRITERS = `SELECT pid FROM pg_stat_activity WHERE backend_type IN ('walwriter', 'checkpointer', 'background writer')`;

async function logWriters(world: World): Promise<number[]> {
  const rows = await world.cluster.query(world.primary, LOG_WRITERS);
  return rows.map(({ pid }) => Number(pid));
}
