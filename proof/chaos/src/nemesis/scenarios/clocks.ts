// Wall clocks that jump ahead or back while services and servers run, and are set right a while
// later. Nothing may expire because of it, and no verdict may change. Ids of right clocks are
// refused only while the primary's clock is wrong.
import { setTimeout as pause } from "node:timers/promises";
import { eventually } from "@highwater/lab-tools/process";
import { CLOCK_NOTICED_MS, findFaketime } from "@highwater/lab-cluster";
import { nowMs } from "../../clock.ts";
import { type Scenario, type Stage } from "../scenario.ts";
import { type World } from "../world.ts";
import { best } from "./failover.ts";

const MINUTE_MS = 60_000;
/** Outside the window of ids, and inside; more than expiry tolerates, and less. */
const JUMPS_MS: readonly number[] = [24 * 60 * MINUTE_MS, 3 * MINUTE_MS, 40_000];
const WRONG_MIN = 2_000;
const WRONG_MAX = 10_000;
const RIGHT_LIMIT_MS = 30_000;

const withoutClocks = (world: World): Promise<string | null> =>
  Promise.resolve(
    world.cluster.clocks !== null
      ? null
      : findFaketime() === undefined
        ? "there is no libfaketime: make .tools/faketime"
        : "the clocks of this seed's processes cannot be set",
  );

interface WrongTime {
  readonly of: "database" | "service";
  readonly names: readonly string[];
}

/**
 * Runs `body` with wrong clocks. They are right again when this resolves; the record covers all of
 * that time.
 */
async function withWrongTime(
  stage: Stage,
  { of, names }: WrongTime,
  body: () => Promise<void>,
): Promise<void> {
  const { world, random, aim } = stage;
  const { clocks } = world.cluster;
  if (clocks === null) throw new Error("the clocks cannot be set");
  const offMs = random.pick(JUMPS_MS) * random.pick([1, -1]);
  const atMs = nowMs();
  aim(`${names.join(", ")} ${offMs > 0 ? "+" : ""}${String(offMs / 1_000)} s`);
  try {
    await Promise.all(names.map((name) => clocks.set(name, offMs)));
    await pause(CLOCK_NOTICED_MS);
    await body();
  } finally {
    await Promise.all(names.map((name) => clocks.set(name, 0)));
    await pause(CLOCK_NOTICED_MS);
    if (of === "database") await Promise.all(names.map((name) => isRight(world, name)));
    for (const name of names) world.clockWas({ atMs, untilMs: nowMs(), of, name, offMs });
  }
}

/**
 * Asks a new process of the server, which has not cached a time. A server that is down will start
 * with the right time.
 */
async function isRight(world: World, node: string): Promise<void> {
  await eventually(
    `the clock of ${node} is right`,
    async () => {
      const state = (await world.cluster.status()).find(({ id }) => id === node)?.state;
      if (state !== "primary" && state !== "replica") return true;
      const [row] = await world.cluster.query(
        node,
        "SELECT extract(epoch FROM clock_timestamp()) * 1000 AS ms",
      );
      return Math.abs(Number(row?.["ms"]) - Date.now()) < CLOCK_NOTICED_MS;
    },
    RIGHT_LIMIT_MS,
  );
}

const awhile = ({ random }: Stage): Promise<void> => pause(random.between(WRONG_MIN, WRONG_MAX));

function ofService(service: "gateway" | "tracker"): Scenario {
  return {
    kind: `${service}_clock`,
    oneIn: 1,
    needs: ["services"],
    impossible: withoutClocks,
    run: async (stage) => {
      const { world, random } = stage;
      const chosen = random.pick(world.system.services(service));
      const startsSo = random.chance(0.4);
      await withWrongTime(stage, { of: "service", names: [chosen.name] }, async () => {
        if (startsSo) await world.revive(chosen);
        await awhile(stage);
      });
    },
  };
}

export const SERVICE_CLOCKS: readonly Scenario[] = [ofService("gateway"), ofService("tracker")];

export const NODE_CLOCKS: readonly Scenario[] = [
  {
    kind: "primary_clock",
    oneIn: 1,
    needs: [],
    impossible: withoutClocks,
    run: (stage) =>
      withWrongTime(stage, { of: "database", names: [stage.world.primary] }, () => awhile(stage)),
  },
  {
    kind: "replica_clock",
    oneIn: 1,
    needs: [],
    impossible: withoutClocks,
    run: (stage) => {
      const names = [stage.random.pick(stage.world.replicas)];
      return withWrongTime(stage, { of: "database", names }, () => awhile(stage));
    },
  },
  {
    // An epoch begins, and a primary takes over, at a wrong time.
    kind: "promote_wrong_clock",
    oneIn: 1,
    needs: [],
    impossible: withoutClocks,
    run: async (stage) => {
      const { world } = stage;
      await withWrongTime(stage, { of: "database", names: world.replicas }, async () => {
        await world.cluster.kill(world.primary);
        const observed = await world.observe();
        await world.promote(best(observed), observed, { kind: "promotion" });
        await world.followed();
        await awhile(stage);
      });
      await world.mend();
    },
  },
];
