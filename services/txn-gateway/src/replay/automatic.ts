// Brings lost transactions back by themselves, before a new epoch's writes: those that were
// committed with `onLost: "replay"`. One gateway at a time does it; another one takes over where it
// ends. It decides nothing that a replay by hand does not, so a write that gets past the hold makes
// conflicts and no harm. (docs/decisions/0243-lost-transactions-come-back-before-writes.md)
import { sleep } from "@highwater/runtime";
import { type ContentsKeys } from "@highwater/service";
import { type ContentsStore, type ReplayTurn } from "@highwater/store";
import { type Config } from "../config.ts";
import { type Deps } from "../deps.ts";
import { type Primary, type PrimaryEpoch } from "../primary/primary.ts";
import { type OwedCounts } from "./ends.ts";
import { gather, type LostWrite } from "./gather.ts";

export interface Owed {
  readonly epochs: ReadonlySet<string>;
  /** Of the time that writes are held. 0: nothing more is to begin. */
  readonly leftMs: () => number;
}

export interface AutomaticOptions {
  readonly config: Config;
  readonly deps: Deps;
  readonly contentsKeys: ContentsKeys | null;
  readonly primary: Primary;
  readonly replay: {
    readonly contents: Pick<ContentsStore, "takeTurn" | "endHold">;
    bringBackOwed(writes: readonly LostWrite[], current: PrimaryEpoch, owed: Owed): Promise<OwedCounts>;
  };
}

/** A gateway that dies or freezes holds the turn for so long. */
const TURN_MS = 1_500;
const RENEW_MS = 500;
const PAUSE_MS = 100;
/** Gateways of other regions let those near the primary go first: each replay is round trips. */
const REMOTE_MS = 1_000;
/** A lost region's tracker does not answer at all. */
const ANSWER_MS = 1_000;

export class AutomaticReplay {
  readonly #options: AutomaticOptions;
  readonly #stop = new AbortController();

  constructor(options: AutomaticOptions) {
    this.#options = options;
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Does nothing in an epoch whose writes are admitted. */
  async begin(current: PrimaryEpoch): Promise<void> {
    const { config, deps, contentsKeys } = this.#options;
    if (contentsKeys === null || config.trackers.length === 0) return;
    for (let attempt = 1; this.#isHeld(current); attempt++) {
      try {
        if (await this.#try(current, contentsKeys)) return;
      } catch (cause) {
        if (!this.#isHeld(current)) return;
        deps.log.warn("replay_failed", { epoch: current.epoch, attempt, cause: String(cause) });
      }
      await this.#pause(PAUSE_MS);
    }
  }

  #isHeld({ epoch }: PrimaryEpoch): boolean {
    const { primary } = this.#options;
    return !this.#stop.signal.aborted && primary.current?.epoch === epoch && primary.hold.leftMs(epoch) > 0;
  }

  #pause(ms: number): Promise<unknown> {
    return sleep(this.#options.deps.clock, ms, this.#stop.signal);
  }

  /** False: another gateway has the turn, or the trackers do not know all losses yet. */
  async #try(current: PrimaryEpoch, contentsKeys: ContentsKeys): Promise<boolean> {
    const { config, deps, primary, replay } = this.#options;
    const { node, epoch } = current;
    const { region } = config.topology.nodes.find(({ id }) => id === node) ?? {};
    const patienceMs = region === config.region ? 0 : REMOTE_MS;
    const turn = { epoch, gateway: config.name, turnMs: TURN_MS, patienceMs };
    const epochs = await replay.contents.takeTurn(node, turn);
    if (epochs === null) return false;
    const beganMs = deps.clock.monotonicMs();
    const over = new AbortController();
    const renewing = this.#renew(current, turn, over.signal);
    try {
      const how = { epoch, answerMs: ANSWER_MS };
      const { writes, trackers, isComplete } = await gather(
        deps.transport,
        config.trackers,
        contentsKeys,
        how,
      );
      if (trackers.answered === 0 || !isComplete) return false;
      const leftMs = (): number => (this.#isHeld(current) ? primary.hold.leftMs(epoch) : 0);
      const counts = await replay.bringBackOwed(writes, current, { epochs: new Set(epochs), leftMs });
      await replay.contents.endHold(node, epoch);
      primary.hold.end(epoch);
      const tookMs = Math.round(deps.clock.monotonicMs() - beganMs);
      deps.log.info("replayed_before_writes", { epoch, ...counts, tookMs });
      return true;
    } finally {
      over.abort();
      await renewing;
    }
  }

  async #renew({ node }: PrimaryEpoch, turn: ReplayTurn, over: AbortSignal): Promise<void> {
    const { deps, replay } = this.#options;
    for (;;) {
      await sleep(deps.clock, RENEW_MS, over);
      if (over.aborted) return;
      // Without it another gateway goes on, and both do each transaction once.
      await replay.contents.takeTurn(node, turn).catch(() => null);
    }
  }
}
