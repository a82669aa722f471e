// The nemesis of the three-region system. Three lanes break nodes, network and services side by
// side, each with its own deck; at the end everything is repaired.
import { setTimeout as pause } from "node:timers/promises";
import { defaultRoundTripMs } from "@highwater/lab-cluster";
import { type System } from "@highwater/lab-system";
import { nowMs, reasonOf, within } from "../clock.ts";
import { type FaultLog } from "../parts.ts";
import { type Nemesis, type NemesisOptions } from "../system.ts";
import { Deck } from "./deck.ts";
import { type LevelRule } from "./kept.ts";
import { Random } from "./random.ts";
import { type Scenario } from "./scenario.ts";
import { NODE_CLOCKS, SERVICE_CLOCKS } from "./scenarios/clocks.ts";
import { FAILOVER } from "./scenarios/failover.ts";
import { HISTORIES } from "./scenarios/histories.ts";
import { PRIMARY_IN_PLACE, REPLICA_IN_PLACE } from "./scenarios/in-place.ts";
import { NETWORK } from "./scenarios/network.ts";
import { SERVICES } from "./scenarios/services.ts";
import { Turns } from "./turn.ts";
import { World } from "./world.ts";

/** A scenario that takes longer hangs, and waiting will not help. */
const SCENARIO_LIMIT_MS = 180_000;
const RESCUE_LIMIT_MS = 120_000;

interface Lane {
  readonly name: string;
  readonly scenarios: readonly Scenario[];
  /** Pause between two scenarios, in milliseconds. */
  readonly calm: readonly [number, number];
}

export const LANES: readonly Lane[] = [
  {
    name: "nodes",
    scenarios: [...PRIMARY_IN_PLACE, ...REPLICA_IN_PLACE, ...FAILOVER, ...HISTORIES, ...NODE_CLOCKS],
    calm: [800, 3_500],
  },
  { name: "network", scenarios: NETWORK, calm: [800, 5_000] },
  { name: "services", scenarios: [...SERVICES, ...SERVICE_CLOCKS], calm: [800, 5_000] },
];

export interface ThreeRegionOptions extends NemesisOptions {
  readonly system: System;
  readonly rules: Readonly<Record<string, LevelRule>>;
  /** Only these kinds. Default: all. */
  readonly only?: readonly string[];
  readonly apiKey?: string | undefined;
  /** Lost transactions are brought back. */
  readonly replays?: boolean;
}

export class ThreeRegionNemesis implements Nemesis {
  readonly #options: ThreeRegionOptions;
  readonly #world: World;
  readonly #turns = new Turns();
  readonly #log: FaultLog;
  #isBroken = false;

  constructor(options: ThreeRegionOptions) {
    const { system, rules, log, say, apiKey, replays = false } = options;
    const primary = system.cluster.nodes[0]?.id;
    if (primary === undefined) throw new Error("the cluster has no node");
    this.#options = options;
    this.#log = log;
    this.#world = new World({ system, rules, primary, log, say, apiKey, replays });
  }

  async run(durationMs: number): Promise<void> {
    const untilMs = nowMs() + durationMs;
    const ended = await Promise.allSettled(LANES.map((lane) => this.#runLane(lane, untilMs)));
    for (const lane of ended) if (lane.status === "rejected") throw lane.reason;
  }

  async #runLane({ name, scenarios, calm }: Lane, untilMs: number): Promise<void> {
    const random = new Random(`${String(this.#options.seed)}/${name}`);
    const possible = await this.#possible(scenarios);
    if (possible.length === 0) return;
    const deck = new Deck(possible, random);
    for (;;) {
      await pause(random.between(...calm));
      if (nowMs() > untilMs || this.#isBroken) return;
      await this.#play(deck.draw(), random);
    }
  }

  async #possible(scenarios: readonly Scenario[]): Promise<Scenario[]> {
    const { only, say } = this.#options;
    const found: Scenario[] = [];
    for (const scenario of scenarios) {
      if (only !== undefined && !only.includes(scenario.kind)) continue;
      const why = (await scenario.impossible?.(this.#world)) ?? null;
      if (why === null) found.push(scenario);
      else say(`${scenario.kind} is left out: ${why}`);
    }
    return found;
  }

  async #play(scenario: Scenario, random: Random): Promise<void> {
    const { say } = this.#options;
    const { kind } = scenario;
    await this.#turns.with(scenario.needs, async () => {
      const atMs = nowMs();
      let target = "";
      const aim = (at: string): void => {
        target = at;
        say(`${kind} (${at})`);
      };
      const end = (error: string | null): void => {
        this.#log.fault({ atMs, untilMs: nowMs(), kind, target, error });
      };
      try {
        const stage = { world: this.#world, random, aim };
        await within(kind, SCENARIO_LIMIT_MS, scenario.run(stage));
        end(null);
      } catch (cause) {
        const error = reasonOf(cause);
        say(`${kind} went wrong: ${error}`);
        end(error);
        await this.#rescue(scenario);
      }
    });
  }

  /**
   * Repairs what a failed scenario left behind. If it chose a node as the primary, that choice
   * stands.
   */
  async #rescue(scenario: Scenario): Promise<void> {
    try {
      if (scenario.needs.includes("services")) await this.#reviveServices();
      if (LANES[0]?.scenarios.includes(scenario) !== true) return;
      await within("the rescue", RESCUE_LIMIT_MS, this.#mendNodes());
    } catch (cause) {
      this.#isBroken = true;
      throw new Error(`after ${scenario.kind} the system cannot be mended`, { cause });
    }
  }

  async #mendNodes(): Promise<void> {
    const world = this.#world;
    const status = await world.cluster.status();
    const state = status.find(({ id }) => id === world.primary)?.state;
    if (state === "paused") await world.cluster.resume(world.primary);
    if (state === "stopped") await world.cluster.start(world.primary);
    const [row] = await world.cluster.query(world.primary, "SELECT pg_is_in_recovery() AS replica");
    if (row?.["replica"] === true) await world.cluster.promote(world.primary);
    await world.followed();
    await world.mend();
  }

  async #reviveServices(): Promise<void> {
    const { system } = this.#options;
    for (const service of [...system.services("tracker"), ...system.services("gateway")]) {
      if (service.pid !== undefined && service.running) process.kill(service.pid, "SIGCONT");
      else await this.#world.revive(service);
    }
  }

  async heal(): Promise<string> {
    const { system, say } = this.#options;
    const world = this.#world;
    say("heals everything");
    await system.cluster.healAll();
    for (const [pair, ms] of Object.entries(defaultRoundTripMs)) {
      const [from = "", to = ""] = pair.split("/");
      await system.cluster.link(from, to).setRoundTripMs(ms);
    }
    await this.#reviveServices();
    await this.#mendNodes();
    await world.followedByAll();
    await system.ready();
    return world.primary;
  }
}
