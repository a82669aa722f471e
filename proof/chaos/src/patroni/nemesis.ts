// The nemesis of a cluster under Patroni: one lane breaks the cluster, one the services. Patroni
// decides which node is promoted, and the nemesis records the result. With Patroni's recommended
// settings, every failure keeps every level except the primary's own disk.
import { setTimeout as pause } from "node:timers/promises";
import { eventually } from "@highwater/lab-tools/process";
import { nowMs, reasonOf, within } from "../clock.ts";
import { Deck } from "../nemesis/deck.ts";
import { Random } from "../nemesis/random.ts";
import { type Nemesis, type NemesisOptions } from "../system.ts";
import { type PatroniFault, PATRONI_FAULTS, SERVICE_FAULTS } from "./faults.ts";
import { MEMBERS, type PatroniSystem } from "./system.ts";

const FAULT_LIMIT_MS = 90_000;
const MENDED_LIMIT_MS = 150_000;
const SERVICES_LIMIT_MS = 60_000;
const READ_LIMIT_MS = 20_000;

export interface PatroniNemesisOptions extends NemesisOptions {
  readonly system: PatroniSystem;
  /** Levels that a change of the primary keeps. */
  readonly kept: readonly string[];
  readonly faults?: readonly PatroniFault[];
  /** Only these kinds. Default: all. */
  readonly only?: readonly string[];
}

interface Epoch {
  readonly seq: number;
  readonly node: string;
}

export class PatroniNemesis implements Nemesis {
  readonly #options: PatroniNemesisOptions;

  constructor(options: PatroniNemesisOptions) {
    this.#options = options;
  }

  async run(durationMs: number): Promise<void> {
    const { faults = PATRONI_FAULTS } = this.#options;
    const untilMs = nowMs() + durationMs;
    const lanes = [
      this.#runLane("cluster", faults, untilMs, (fault, random) => this.#breakCluster(fault, random)),
      this.#runLane("services", SERVICE_FAULTS, untilMs, (fault, random) =>
        this.#breakService(fault, random),
      ),
    ];
    for (const lane of await Promise.allSettled(lanes)) if (lane.status === "rejected") throw lane.reason;
  }

  async heal(): Promise<string> {
    await this.#options.system.revive();
    return this.#mend();
  }

  async #runLane(
    name: string,
    all: readonly PatroniFault[],
    untilMs: number,
    play: (fault: PatroniFault, random: Random) => Promise<void>,
  ): Promise<void> {
    const { seed, only } = this.#options;
    const wanted = only === undefined ? all : all.filter(({ kind }) => only.includes(kind));
    const faults = await this.#possible(wanted);
    if (faults.length === 0) return;
    const random = new Random(`${String(seed)}/patroni/${name}`);
    const deck = new Deck(faults, random);
    for (;;) {
      await pause(random.between(800, 3_500));
      if (nowMs() > untilMs) return;
      await play(deck.draw(), random);
    }
  }

  async #possible(wanted: readonly PatroniFault[]): Promise<PatroniFault[]> {
    const found: PatroniFault[] = [];
    for (const fault of wanted) {
      const why = (await fault.impossible?.()) ?? null;
      if (why === null) found.push(fault);
      else this.#options.say(`${fault.kind} is left out: ${why}`);
    }
    return found;
  }

  async #breakCluster(fault: PatroniFault, random: Random): Promise<void> {
    const { system, log, kept } = this.#options;
    const leader = await system.patroni.settled();
    const before = await this.#epochs(leader);
    const atMs = nowMs();
    await this.#play(fault, random, leader);
    await within(`the cluster mends itself after ${fault.kind}`, MENDED_LIMIT_MS, this.#mend());
    const heir = await system.patroni.settled();
    const known = new Set(before.map(({ seq }) => seq));
    const began = (await this.#epochs(heir)).filter(({ seq }) => !known.has(seq));
    const hasMoved = began.some(({ node }) => node !== leader);
    for (const { node } of began)
      log.failure({ atMs, kind: fault.kind, node, kept: hasMoved ? kept : system.levels });
  }

  async #breakService(fault: PatroniFault, random: Random): Promise<void> {
    await this.#play(fault, random, "");
    await within("the services are back", SERVICES_LIMIT_MS, this.#options.system.revive());
  }

  async #play(fault: PatroniFault, random: Random, leader: string): Promise<void> {
    const { system, log, say } = this.#options;
    const { kind } = fault;
    const atMs = nowMs();
    let target = "";
    let error: string | null = null;
    const aim = (at: string): void => {
      target = at;
      say(`${kind} (${at})`);
    };
    try {
      const standbys = MEMBERS.filter((id) => id !== leader);
      await within(kind, FAULT_LIMIT_MS, fault.run({ system, random, leader, standbys, aim }));
    } catch (cause) {
      error = reasonOf(cause);
      say(`${kind} went wrong: ${error}`);
    }
    log.fault({ atMs, untilMs: nowMs(), kind, target, error });
  }

  /**
   * Resumes and starts everything; Patroni does the rest. Resolves with the leader once every
   * tracker follows it.
   */
  async #mend(): Promise<string> {
    const { system } = this.#options;
    const { patroni } = system;
    await patroni.heal();
    for (const id of MEMBERS) {
      await patroni.thaw(id);
      if (!(await patroni.isPatroniAlive(id))) patroni.start(id);
    }
    await patroni.settled();
    return eventually(
      "the leader's epoch has begun",
      async () => {
        const leader = await patroni.leader();
        const [row] = leader === undefined ? [] : await patroni.query(leader, CURRENT_EPOCH);
        return row !== undefined && leader;
      },
      MENDED_LIMIT_MS,
    );
  }

  #epochs(leader: string): Promise<Epoch[]> {
    return eventually(
      "the epochs are read",
      async () => {
        const rows = await this.#options.system.patroni.query(
          leader,
          "SELECT seq::int, node FROM highwater.epoch",
        );
        return rows as unknown as Epoch[];
      },
      READ_LIMIT_MS,
    );
  }
}

const CURRENT_EPOCH =
  "SELECT FROM highwater.epoch_sentinel s JOIN highwater.epoch e ON e.id = s.id WHERE s.started_at = pg_postmaster_start_time()";
