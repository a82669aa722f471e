// Nodes that fail and come back as what they were: the primary recovers on its own timeline and uses its offsets again, a
// replica goes on where it stood. Every level keeps its promises.
import { execFile } from "node:child_process";
import { readdir, readFile, stat } from "node:fs/promises";
import { promisify } from "node:util";
import { eventually } from "@highwater/dev-process";
import { pause } from "../../clock.ts";
import { type Scenario } from "../scenario.ts";
import { type World } from "../world.ts";

const run = promisify(execFile);
const FULL_LIMIT_MS = 15_000;
/** A file of the log has 16 MiB, so nearly every write to it goes beyond this. */
const FULL_BYTES = 64 * 1024;

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
      const services = system.regions.flatMap((region) => [system.gateway(region), system.tracker(region)]);
      await Promise.all([
        ...services.map((service) => service.kill()),
        ...cluster.nodes.map(({ id }) => cluster.kill(id)),
      ]);
      await pause(awayMs);
      world.wentOnInPlace("crash");
      const order = random.shuffle(system.regions);
      await Promise.all([
        ...cluster.nodes.map(({ id }) => cluster.start(id)),
        ...order.map((region) => world.revive(region, "tracker")),
      ]);
      await Promise.all(order.map((region) => world.revive(region, "gateway")));
    },
  },
];

export const REPLICA_IN_PLACE: readonly Scenario[] = [
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
    impossible: async () =>
      run("prlimit", ["--version"]).then(
        () => null,
        () => "there is no prlimit",
      ),
    run: async ({ world, random, aim }) => {
      const node = random.pick(world.replicas);
      aim(node);
      await fillDisk(world, node);
      // It recovers into the same wall until somebody gives it room: a new process has no limit.
      await pause(random.between(500, 3_000));
      const [found] = (await world.cluster.status()).filter(({ id }) => id === node);
      if (found?.state !== "stopped") await world.cluster.kill(node);
      await world.cluster.start(node);
    },
  },
];

/**
 * No file of the server grows beyond a few pages any more. It is refused with another error number than on a full disk, at
 * the same place: the receiver cannot write the log, and the server goes down.
 */
async function fillDisk(world: World, node: string): Promise<void> {
  const { dataDir } = world.node(node);
  const root = Number.parseInt(await readFile(`${dataDir}/postmaster.pid`, "utf8"), 10);
  // A server's limits are set by its own user.
  const { uid, gid } = await stat(dataDir);
  for (const pid of [root, ...(await childrenOf(root))])
    await run("prlimit", ["--pid", String(pid), `--fsize=${String(FULL_BYTES)}`], {
      uid,
      gid,
      cwd: "/",
    }).catch((cause: unknown) => {
      // A backend may have ended meanwhile.
      if (pid === root) throw cause;
    });
  await eventually(
    `${node} is out of space`,
    async () => {
      const [found] = (await world.cluster.status()).filter(({ id }) => id === node);
      if (found?.state !== "replica") return true;
      const [row] = await world.cluster.query(node, "SELECT count(*)::int AS n FROM pg_stat_wal_receiver");
      return row?.["n"] === 0;
    },
    FULL_LIMIT_MS,
  );
}

async function childrenOf(root: number): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const status = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
      const parent = status.slice(status.lastIndexOf(")") + 2).split(" ")[1];
      return Number(parent) === root ? [Number(pid)] : [];
    }),
  );
  return found.flat();
}
