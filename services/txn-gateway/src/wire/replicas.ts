// Answers two questions of read-port sessions about their node: does it show a token's transaction,
// and is everything that it has shown durable? Sessions with one question share the answer.
import { type EpochId, type Offset, openToken, type TokenContent } from "@highwater/protocol";
import { type NodeReport } from "@highwater/authority";
import { sleep } from "@highwater/runtime";
import { type ReplicaReading } from "@highwater/store";
import { DISCARDED, isUnprovable, type Reads } from "../attempts/reads.ts";
import { type Deps } from "../deps.ts";
import { type MarkBoard } from "../outcomes/marks.ts";
import { type FlushHelp } from "../primary/flush.ts";
import { type Primary } from "../primary/primary.ts";
import { INTEREST_MS, type MarkInterest } from "../trackers/interest.ts";
import { type TrackerVerdict } from "../trackers/verdicts.ts";
import { type RequestRules } from "../txn/request.ts";
import { type Report } from "./frames/build.ts";
import { type Look } from "./model/state.ts";
import { type Position } from "./positions.ts";

export interface ReplicaContext {
  readonly deps: Pick<Deps, "clock" | "store">;
  readonly primary: Primary;
  readonly reads: Pick<Reads, "endIfFeeding" | "replicaNear" | "verdictOf">;
  readonly rules: RequestRules;
  readonly marks: MarkBoard;
  readonly flush: FlushHelp;
  readonly interest: Pick<MarkInterest, "renew">;
}

/** The client that holds the token. */
export interface TokenHolder {
  readonly owner: bigint;
  readonly isAdministrator: boolean;
}

interface Arrival {
  readonly epoch: EpochId;
  readonly offset: Offset;
  readonly signal: AbortSignal;
  readonly settle: () => void;
}

/** A bound of what the replica has shown, and the end of the primary's log behind it. */
export interface Shown extends Position {
  readonly end: Offset;
}

type Read = Extract<ReplicaReading, { kind: "read" }>;

const LOOK_MS = 1_000;
const POLL_MS_MIN = 5;
const POLL_MS_MAX = 100;
/** An empty read, which returns only the position. */
const NOTHING = { statements: [], isolation: "read committed", maxRows: 1, maxBytes: 1_024 } as const;

export class Replicas {
  readonly #parts: ReplicaContext;
  /** By node. */
  readonly #arrivals = new Map<string, Arrival[]>();
  readonly #polled = new Set<string>();
  /** How far each node's snapshot reaches. */
  readonly #looks: Shared<Read | null>;
  readonly #roles: Shared<NodeReport["role"] | null>;

  constructor(parts: ReplicaContext) {
    this.#parts = parts;
    const { store } = parts.deps;
    this.#looks = new Shared((node) => this.#read(node, null));
    this.#roles = new Shared((node) =>
      store.probe(node).then(
        ({ role }) => role,
        () => null,
      ),
    );
  }

  /** The replica for a new session; null: the primary. */
  get near(): string | null {
    const { primary, reads } = this.#parts;
    const { current } = primary;
    return current === null ? null : (reads.replicaNear(current)?.node ?? null);
  }

  /**
   * Resolves to null when a session at the node sees the token's transaction, or to the reason why
   * it never will. `replica`: null for the primary.
   */
  async arrived(
    text: string,
    at: { readonly replica: string | null; readonly holder: TokenHolder; readonly signal: AbortSignal },
  ): Promise<Report | null> {
    const { rules } = this.#parts;
    const { replica, holder, signal } = at;
    const token = openToken(text, rules.tokens);
    if (token === undefined) return INVALID;
    if (token.owner !== holder.owner && !holder.isAdministrator) return FORBIDDEN;
    if (replica === null) return this.#judgeNow(text, token, signal);
    const over = new AbortController();
    const both = AbortSignal.any([signal, over.signal]);
    const shown = this.#untilShown(replica, token, both).then(() => null);
    const report = await Promise.race([shown, this.#untilLost(text, token, both)]);
    over.abort();
    return report;
  }

  /** A primary of another epoch shows the transaction, unless trackers know that it is lost. */
  async #judgeNow(text: string, token: TokenContent, signal: AbortSignal): Promise<Report | null> {
    const { epoch } = token;
    const { primary, reads } = this.#parts;
    const current = primary.current?.epoch ?? "";
    if (epoch === current) return null;
    const verdict = await reads.verdictOf(text, signal);
    const never = neverArrives(token, verdict);
    if (never !== null) return never;
    return verdict === "durable" || primary.isAncestor(epoch, current) ? null : UNSETTLED;
  }

  /** A failover may have lost the transaction of a token from another epoch: it never arrives. */
  async #untilLost(text: string, token: TokenContent, signal: AbortSignal): Promise<Report> {
    const { primary, deps, reads } = this.#parts;
    while (!signal.aborted) {
      const isCurrent = primary.current?.epoch === token.epoch;
      const never = isCurrent ? null : neverArrives(token, await reads.verdictOf(text, signal));
      if (never !== null) return never;
      await sleep(deps.clock, POLL_MS_MAX, signal);
    }
    return NEVER;
  }

  #untilShown(node: string, { epoch, offset }: TokenContent, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const arrivals = this.#arrivals.get(node) ?? [];
      this.#arrivals.set(node, arrivals);
      arrivals.push({ epoch, offset, signal, settle: resolve });
      if (!this.#polled.has(node)) void this.#poll(node, arrivals);
    });
  }

  /** Asks for the lowest position first: an answer settles all below it in the same epoch. */
  async #poll(node: string, arrivals: Arrival[]): Promise<void> {
    const { clock } = this.#parts.deps;
    this.#polled.add(node);
    let pauseMs = POLL_MS_MIN;
    for (;;) {
      take(arrivals, ({ signal }) => signal.aborted);
      const [first] = arrivals;
      if (first === undefined) break;
      const lowest = arrivals
        .filter(({ epoch }) => epoch === first.epoch)
        .reduce((low, one) => (one.offset < low.offset ? one : low));
      if (await this.#shows(node, lowest)) {
        for (const { settle } of take(
          arrivals,
          ({ epoch, offset }) => epoch === lowest.epoch && offset <= lowest.offset,
        ))
          settle();
        pauseMs = POLL_MS_MIN;
        continue;
      }
      this.#help();
      await sleep(clock, pauseMs);
      pauseMs = Math.min(POLL_MS_MAX, 2 * pauseMs);
      // Lets another epoch have its turn.
      arrivals.push(...arrivals.splice(0, 1));
    }
    this.#polled.delete(node);
  }

  async #shows(node: string, after: { readonly epoch: EpochId; readonly offset: Offset }): Promise<boolean> {
    const reading = await this.#read(node, after);
    return reading !== null && reading.position.epoch === this.#parts.primary.current?.epoch;
  }

  /** Null when the node's snapshot is too old, or the node does not answer. */
  async #read(
    node: string,
    after: { readonly epoch: EpochId; readonly offset: Offset } | null,
  ): Promise<Read | null> {
    const reading = await this.#parts.deps.store.readReplica(node, { ...NOTHING, after }).catch(() => null);
    return reading?.kind === "read" ? reading : null;
  }

  /** The proof of arrival is a row, which has to be written and replicated as well. */
  #help(): void {
    const { primary, flush } = this.#parts;
    const { current } = primary;
    if (current !== null) flush.committed(current);
  }

  /** What the replica shows now; null when it does not say in time. */
  look(node: string): Promise<Look | null> {
    const { clock } = this.#parts.deps;
    const atMs = clock.monotonicMs();
    const found = this.#looks
      .ask(node)
      .then((read) => (read === null ? null : { ...read.position, ageMs: read.ageMs, atMs }));
    return Promise.race([found, sleep(clock, LOOK_MS).then(() => null)]);
  }

  /** Resolves when all that the replica has shown by now is durable. Never after the signal. */
  async shown(node: string, level: string, signal: AbortSignal): Promise<Shown> {
    const { deps, primary, reads, marks, interest } = this.#parts;
    let pauseMs = POLL_MS_MIN;
    while (!signal.aborted) {
      const read = await this.#looks.ask(node);
      const { current } = primary;
      const end =
        read !== null && current?.epoch === read.position.epoch
          ? await reads.endIfFeeding(current, node)
          : null;
      if (read !== null && end !== null) {
        this.#help();
        interest.renew();
        for (;;) {
          const waited = await marks.wait({ ...read.position, level }, INTEREST_MS / 2, signal);
          if (waited === "reached") return { ...read.position, end };
          // The node still has everything that the session has shown; the next epoch's marks cover
          // it.
          if (waited === "ended" || signal.aborted) break;
          interest.renew();
        }
      }
      await sleep(deps.clock, pauseMs, signal);
      pauseMs = Math.min(POLL_MS_MAX, 2 * pauseMs);
    }
    return NEVER;
  }

  /**
   * Resolves when the node, asked after this call, reports that it is a replica: it has committed
   * nothing. Otherwise never resolves.
   */
  async confirmed(node: string, signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts.deps;
    let pauseMs = POLL_MS_MIN;
    while (!signal.aborted) {
      if ((await this.#roles.ask(node)) === "replica") return;
      await sleep(clock, pauseMs, signal);
      pauseMs = Math.min(POLL_MS_MAX, 2 * pauseMs);
    }
    return NEVER;
  }
}

const NEVER = new Promise<never>(() => undefined);

const INVALID: Report = {
  severity: "ERROR",
  code: "22023",
  message: "highwater.after is not a token of this deployment",
};
const FORBIDDEN: Report = {
  severity: "ERROR",
  code: "42501",
  message: "highwater.after is another owner's token",
};
const LOST: Report = {
  severity: "ERROR",
  code: "40001",
  message: "the transaction of highwater.after committed and was lost in a failover",
};
const UNKNOWN: Report = {
  severity: "ERROR",
  code: "40003",
  message:
    "the transaction of highwater.after was answered before it was durable, and a failover may have lost it",
};
const UNSETTLED: Report = {
  severity: "ERROR",
  code: "55000",
  message:
    "the epoch of highwater.after is not in this server's history, and trackers have not settled its verdict",
  hint: "Try again.",
};

function neverArrives(token: TokenContent, verdict: TrackerVerdict): Report | null {
  if (DISCARDED.has(verdict)) return LOST;
  return isUnprovable(token, verdict) ? UNKNOWN : null;
}

/** Removes and returns the arrivals that `holds` accepts. */
function take(arrivals: Arrival[], holds: (arrival: Arrival) => boolean): Arrival[] {
  const taken = arrivals.filter(holds);
  if (taken.length > 0)
    arrivals.splice(0, arrivals.length, ...arrivals.filter((one) => !taken.includes(one)));
  return taken;
}

/** Shares questions to a node: each caller gets the answer to one sent after its call. */
class Shared<Answer> {
  readonly #ask: (node: string) => Promise<Answer>;
  readonly #next = new Map<string, Promise<Answer>>();
  readonly #running = new Map<string, Promise<unknown>>();

  constructor(ask: (node: string) => Promise<Answer>) {
    this.#ask = ask;
  }

  ask(node: string): Promise<Answer> {
    let next = this.#next.get(node);
    if (next === undefined) {
      const before = this.#running.get(node) ?? Promise.resolve();
      next = before.then(() => {
        this.#next.delete(node);
        const asked = this.#ask(node);
        this.#running.set(node, asked);
        return asked;
      });
      this.#next.set(node, next);
    }
    return next;
  }
}
