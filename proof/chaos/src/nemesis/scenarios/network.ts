// Links between regions that are cut, reset, cut one way, flapping or slow, and a region that no
// other one reaches. None of these causes a loss.
import { setTimeout as pause } from "node:timers/promises";
import { defaultRoundTripMs, type LinkControl } from "@highwater/lab-cluster";
import { type Random } from "../random.ts";
import { type Scenario, type Stage } from "../scenario.ts";

/** Longer than every time limit of clients, services and streams. */
const LONG_CUT_MS = 70_000;
const FLAPS_MIN = 5;
const FLAPS_MAX = 15;

function someLink({ world, random, aim }: Stage): { link: LinkControl; pair: readonly [string, string] } {
  const [from, to] = random.shuffle(world.system.regions);
  if (from === undefined || to === undefined) throw new Error("there is only one region");
  aim(`${from} > ${to}`);
  return { link: world.cluster.link(from, to), pair: [from, to] };
}

/** Longer or shorter than a replica waits for its stream. */
const aWhile = (random: Random): number =>
  random.chance(0.4) ? random.between(5_500, 8_000) : random.between(300, 3_000);

function broken(kind: string, cut: (link: LinkControl, random: Random) => Promise<void>): Scenario {
  return {
    kind,
    oneIn: 1,
    needs: ["network"],
    run: async (stage) => {
      const { link } = someLink(stage);
      const forMs = aWhile(stage.random);
      try {
        await cut(link, stage.random);
        await pause(forMs);
      } finally {
        await link.heal();
      }
    },
  };
}

export const NETWORK: readonly Scenario[] = [
  broken("cut_link", (link) => link.cut()),
  broken("reset_link", (link) => link.cut({ mode: "reset" })),
  broken("one_way_link", (link, random) =>
    link.cut({ direction: random.chance(0.5) ? "forward" : "backward" }),
  ),
  {
    kind: "flapping_link",
    oneIn: 1,
    needs: ["network"],
    run: async (stage) => {
      const { link } = someLink(stage);
      const { random } = stage;
      const flaps = Math.round(random.between(FLAPS_MIN, FLAPS_MAX));
      const mode = random.chance(0.5) ? "reset" : "blackhole";
      try {
        for (let flap = 0; flap < flaps; flap++) {
          await link.cut({ mode });
          await pause(random.between(20, 400));
          await link.heal();
          await pause(random.between(20, 600));
        }
      } finally {
        await link.heal();
      }
    },
  },
  {
    kind: "slow_link",
    oneIn: 1,
    needs: ["network"],
    run: async (stage) => {
      const { link, pair } = someLink(stage);
      const usualMs =
        defaultRoundTripMs[pair.join("/")] ?? defaultRoundTripMs[[...pair].reverse().join("/")] ?? 0;
      try {
        await link.setRoundTripMs(stage.random.between(300, 1_500));
        await pause(stage.random.between(2_000, 7_000));
      } finally {
        await link.setRoundTripMs(usualMs);
      }
    },
  },
  {
    kind: "long_cut",
    oneIn: 4,
    needs: ["network"],
    run: async (stage) => {
      const { link } = someLink(stage);
      try {
        await link.cut();
        await pause(LONG_CUT_MS);
      } finally {
        await link.heal();
      }
    },
  },
  {
    kind: "isolated_region",
    oneIn: 1,
    needs: ["network"],
    run: async ({ world, random, aim }) => {
      const region = random.pick(world.system.regions);
      aim(region);
      try {
        await world.cluster.isolate(region);
        await pause(aWhile(random));
      } finally {
        await world.cluster.healAll();
      }
    },
  },
];
