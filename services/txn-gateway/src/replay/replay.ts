// Brings lost transactions back: gathers them, orders them, and ends each one as replayed, as a
// conflict or as unrecoverable. Each replay is a new transaction that takes its root in the table
// `redo`, so that nothing takes effect twice.
// (docs/decisions/0234-lost-transactions-are-brought-back.md)
import {
  type EpochId,
  HighwaterError,
  type ReplayOutcome,
  type ReplayReport,
  type ReplayRequest,
  type TxnId,
} from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import {
  type ContentsKeys,
  DEFAULT_LIMITS,
  type DeploymentKeys,
  NOBODY,
  type Principal,
  requireScope,
} from "@highwater/service";
import { type ContentsStore, type OpenTransaction, type ReceiptKey } from "@highwater/store";
import { type ActiveTransactions } from "../attempts/active.ts";
import { type Attempts } from "../attempts/attempts.ts";
import { lifespanMs, timeLimit } from "../attempts/bounds.ts";
import { type Config } from "../config.ts";
import { type Keeper, type Kept } from "../contents/keeper.ts";
import { type Deps } from "../deps.ts";
import { type Admitted, type Exposure } from "../exposure/exposure.ts";
import { type Attempt, type Outcomes } from "../outcomes/outcomes.ts";
import { type Primary, type PrimaryEpoch } from "../primary/primary.ts";
import { RETRY_MS } from "../retry.ts";
import { type Caller } from "../txn/caller.ts";
import { INTERACTIVE } from "../txn/digest.ts";
import { newTxnId } from "../txn/new-id.ts";
import { type Tokens } from "../txn/tokens.ts";
import { AutomaticReplay, type Owed } from "./automatic.ts";
import {
  type End,
  endOfRoot,
  findUnordered,
  hopeless,
  type Item,
  type OwedCounts,
  overtaking,
  owedBefore,
  standsAside,
  toExamine,
  UNKNOWN,
  unplanned,
} from "./ends.ts";
import { DryRun, type Overtaken } from "./dry-run.ts";
import { examineAll } from "./examination.ts";
import { statementsOf } from "./examine.ts";
import { gather, type LostWrite } from "./gather.ts";
import { openFor } from "./open.ts";
import { inOrder } from "./order.ts";
import { rootOf, runIn, TRIES } from "./run.ts";
import { Turns } from "./turns.ts";

export interface ReplayContext {
  readonly config: Config;
  readonly deps: Deps;
  readonly keys: Pick<DeploymentKeys, "receiptTag">;
  readonly contentsKeys: ContentsKeys | null;
  readonly primary: Primary;
  readonly attempts: Attempts;
  readonly active: ActiveTransactions;
  readonly exposure: Exposure;
  readonly outcomes: Outcomes;
  readonly keeper: Keeper;
  readonly tokens: Tokens;
}

interface How {
  readonly isMine: (item: Item) => boolean;
  readonly caller: Caller;
  readonly independent: NonNullable<ReplayRequest["independent"]>;
  /** Null: it is no dry run. */
  readonly dry: DryRun | null;
  /** Time that is left for all owners' transactions. Absent: they are the caller's own. */
  readonly leftMs?: () => number;
}

interface Among {
  readonly items: readonly Item[];
  readonly caller: Caller;
  readonly kept: Kept[];
}

/** Acts for the owner of each transaction, by what its commit asked for. */
const SERVICE: Principal = {
  id: "service:replay",
  owner: NOBODY,
  role: null,
  scopes: new Set(["write"]),
  limits: DEFAULT_LIMITS,
  isService: true,
};

const ADMIT_TRIES = 100;
const ADMIT_PAUSE_MS = 200;
const LOOK_UP = 500;
const SETTLE_MS = 1_000;
/** Of the time that writes are held, one role may take this part before any is brought back. */
const EXAMINE_SHARE = 3;

export class Replay {
  readonly automatic: AutomaticReplay;
  readonly #parts: ReplayContext;
  readonly #turns: Turns;
  #store: ContentsStore | null = null;

  constructor(parts: ReplayContext) {
    this.#parts = parts;
    this.automatic = new AutomaticReplay({ ...parts, replay: this });
    this.#turns = new Turns(parts.deps.clock);
  }

  close(): void {
    this.automatic.stop();
    this.#store?.close();
  }

  get contents(): ContentsStore {
    return (this.#store ??= this.#parts.deps.contentsStore());
  }

  /** Errors: HighwaterError. Transactions that were brought back by then stay so. */
  async run(request: ReplayRequest, caller: Caller): Promise<ReplayReport> {
    const { principal } = caller;
    requireScope(principal, "contents:replay");
    const { contentsKeys, config } = this.#parts;
    if (contentsKeys === null || config.trackers.length === 0)
      throw new HighwaterError("keep_unavailable", {
        detail: "There are no HIGHWATER_CONTENTS_KEYS or no trackers.",
      });
    return this.#turns.run(principal.owner, caller.signal, (signal) =>
      this.#run(request, { ...caller, signal }, contentsKeys),
    );
  }

  async #run(request: ReplayRequest, caller: Caller, contentsKeys: ContentsKeys): Promise<ReplayReport> {
    const { principal } = caller;
    const { config, deps, primary } = this.#parts;
    const current = await primary.admitWrite();
    const { writes, trackers } = await gather(deps.transport, config.trackers, contentsKeys);
    if (trackers.answered === 0)
      throw new HighwaterError("marks_unavailable", {
        detail: "No tracker answers what was lost.",
        retryAfterMs: ADMIT_PAUSE_MS,
      });
    const wanted = request.ids === undefined ? null : new Set(request.ids.map((id) => id.toLowerCase()));
    const items = await this.#itemsOf(writes, current);
    const isMine = ({ lost }: Item): boolean =>
      lost.owner === principal.owner && lost.root === null && wanted?.has(lost.id) !== false;
    const dryRun = request.dryRun ?? true;
    const mine = items.filter(isMine);
    const known = new Set(mine.map(({ lost }) => lost.id as string));
    const missing = [...(wanted ?? [])].find((id) => !known.has(id));
    if (missing !== undefined)
      throw new HighwaterError("not_found", {
        detail: `No tracker lists a lost transaction ${missing} of this owner.`,
      });
    if (!dryRun) await this.#settle(mine, current);
    const ids = mine.filter(({ end }) => end === null).map(({ lost }) => lost.id);
    if (!dryRun && ids.length > 0)
      await this.#asked(
        this.contents.recordReplay(
          current.node,
          { owner: principal.owner, ids },
          { by: principal.id, reason: null },
        ),
      );
    const dry = dryRun ? new DryRun(this.#parts, current, caller, this.#overtakenBy(items, current)) : null;
    const { independent = "none" } = request;
    try {
      await this.#bringBackAll(items, current, { isMine, caller, independent, dry });
    } finally {
      await dry?.end();
    }
    return reportOf(mine, { dryRun, trackers, principal, items });
  }

  /**
   * Brings back what was lost before one of the epochs and committed with `onLost`, of all owners.
   */
  async bringBackOwed(
    writes: readonly LostWrite[],
    current: PrimaryEpoch,
    { epochs, leftMs }: Owed,
  ): Promise<OwedCounts> {
    const items = await this.#itemsOf(writes, current);
    const isMine = owedBefore(items, epochs);
    const mine = items.filter(isMine);
    if (mine.length > 0) {
      await this.#settle(mine, current);
      for (const owner of new Set(mine.map(({ lost }) => lost.owner))) {
        const own = mine.filter(({ lost, end }) => end === null && lost.owner === owner);
        const of = { owner, ids: own.map(({ lost }) => lost.id) };
        await this.contents.recordReplay(current.node, of, { by: SERVICE.id, reason: "onLost" });
      }
      const { replayIndependent: independent } = this.#parts.config;
      const caller = { principal: SERVICE };
      await this.#bringBackAll(items, current, { isMine, caller, independent, dry: null, leftMs });
    }
    const count = (outcome: End["outcome"] | undefined): number =>
      mine.filter(({ end }) => end?.outcome === outcome).length;
    return {
      replayed: count("replayed"),
      conflicts: count("conflict"),
      unrecoverable: count("unrecoverable"),
      left: count(undefined),
    };
  }

  /**
   * In their order. Those of others have no end here, and stand in the way. Where they are of all
   * owners, one that fails leaves only its owner's without an end.
   */
  async #bringBackAll(items: readonly Item[], current: PrimaryEpoch, how: How): Promise<void> {
    const { isMine, caller, independent, dry, leftMs } = how;
    const needed = toExamine(items, isMine, independent);
    const mustLead = (): Promise<void> => this.#mustLead(current);
    const limitMs = leftMs === undefined ? Infinity : leftMs() / EXAMINE_SHARE;
    await examineAll(needed, current, this.#parts, { caller, limitMs, mustLead });
    for (const item of items) if (item.end === null && item.lost.root === null) item.end = unplanned(item);
    findUnordered(items);
    const kept: Kept[] = [];
    /** Owners of whom one could not be brought back. */
    const failed = new Set<bigint>();
    const isOpen = (item: Item): boolean => item.end === null && isMine(item) && !failed.has(item.lost.owner);
    for (const [at, item] of items.entries()) {
      item.end ??= endOfRoot(items, item);
      if (!isOpen(item)) continue;
      if (leftMs !== undefined && leftMs() <= 0) break;
      const aside = standsAside(items, at, independent);
      if (aside !== null) item.end = aside;
      else if (dry !== null) item.end = await dry.run(item);
      else if (leftMs === undefined) item.end = await this.#bringBack(item, { items, caller, kept });
      else {
        const { owner } = item.lost;
        const others = items.some((other) => other.lost.owner !== owner && isOpen(other));
        const withinMs = leftMs() / (others ? 2 : 1);
        item.end = await this.#bringBackWithin(withinMs, item, { items, caller, kept });
        if (item.end !== null) continue;
        await mustLead();
        failed.add(owner);
      }
    }
    // Their contents are to survive the next failover as well.
    await Promise.all(kept.map((each) => each.whenReached()));
  }

  /** Errors: `primary_unavailable`, `epoch_changed`. */
  async #mustLead({ node, epoch }: PrimaryEpoch): Promise<void> {
    const end = await this.#asked(this.#parts.deps.store.logEnd(node));
    if (end.epoch !== epoch) throw new HighwaterError("epoch_changed", { retryAfterMs: RETRY_MS.soon });
  }

  /** The primary may fail in the middle. Errors: `primary_unavailable`. */
  async #asked<T>(asking: Promise<T>): Promise<T> {
    try {
      return await asking;
    } catch (cause) {
      this.#parts.primary.wake();
      if (cause instanceof HighwaterError) throw cause;
      const details = { detail: "The primary does not answer.", retryAfterMs: RETRY_MS.primary };
      throw new HighwaterError("primary_unavailable", details, { cause });
    }
  }

  async #itemsOf(writes: readonly LostWrite[], current: PrimaryEpoch): Promise<Item[]> {
    const { keys, deps, primary } = this.#parts;
    const history = primary.epochs.ancestry(current.epoch).map(({ id }) => id as EpochId);
    const epochs = [...new Set(writes.map(({ epoch }) => epoch))].toSorted(
      (a, b) => seqOf(primary, a) - seqOf(primary, b),
    );
    const sorted = epochs.flatMap((epoch) => inOrder(writes.filter((each) => each.epoch === epoch)));
    const items: Item[] = [];
    for (let at = 0; at < sorted.length; at += LOOK_UP) {
      const some = sorted.slice(at, at + LOOK_UP);
      const roots = some.map(({ id, owner, contents }): ReceiptKey => {
        const root = (contents?.redoOf ?? id) as TxnId;
        return { id: root, tag: keys.receiptTag(owner, root) };
      });
      const [redone, { receipts }] = await this.#asked(
        Promise.all([this.contents.redone(current.node, roots), deps.store.lookUp(current.node, roots)]),
      );
      for (const [n, lost] of some.entries()) {
        const kind = receipts[n]?.kind;
        const root = roots[n] as ReceiptKey;
        const by = kind === "commit" ? root.id : (redone[n] ?? null);
        const known: End | null =
          by === null ? hopeless(lost, kind) : { outcome: "replayed", replayedBy: by };
        const end = lost.root === null ? known : null;
        const since = sinceOf(primary, history, lost.epoch);
        items.push({ lost, root, since, isOpen: kind === "absent", examined: UNKNOWN, end });
      }
    }
    return items;
  }

  /** No client may commit under the ids any more: it would take effect twice. */
  async #settle(mine: readonly Item[], { node, epoch }: PrimaryEpoch): Promise<void> {
    const open = mine.filter(({ end, isOpen }) => end === null && isOpen);
    for (let at = 0; at < open.length; at += LOOK_UP) {
      const some = open.slice(at, at + LOOK_UP);
      const keys = some.map(({ root }) => root);
      const request = { epoch, keys, tombstone: "lost", patienceMs: SETTLE_MS } as const;
      const { receipts } = await this.#asked(this.#parts.deps.store.settle(node, request));
      for (const [n, item] of some.entries()) {
        const kind = receipts[n]?.kind;
        item.end =
          kind === "commit" ? { outcome: "replayed", replayedBy: item.root.id } : hopeless(item.lost, kind);
      }
    }
  }

  /** Null: it could not be brought back, or not in the time that one owner may take. */
  async #bringBackWithin(withinMs: number, item: Item, among: Among): Promise<End | null> {
    const { clock, log } = this.#parts.deps;
    const late = timeLimit(clock, withinMs, `It took longer than ${String(Math.round(withinMs))} ms.`);
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          return await this.#bringBack(item, { ...among, caller: { ...among.caller, signal: late.signal } });
        } catch (cause) {
          if (attempt >= TRIES || late.signal.aborted || !mayPass(cause)) {
            log.warn("replay_left", { transactionId: item.lost.id, cause: String(cause) });
            return null;
          }
        }
        await sleep(clock, RETRY_MS.soon, late.signal);
      }
    } finally {
      late.end();
    }
  }

  async #bringBack(item: Item, among: Among): Promise<End> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#try(item, among);
      } catch (cause) {
        const isRetried = cause instanceof HighwaterError && cause.code === "serialization_failure";
        if (!isRetried || attempt >= TRIES) throw cause;
      }
    }
  }

  async #try(item: Item, { items, caller, kept: all }: Among): Promise<End> {
    const { lost, examined, since } = item;
    const { deps, primary, keys, keeper, attempts, outcomes, active, tokens, config } = this.#parts;
    const { contents, owner } = lost;
    if (contents === null || since === null || examined.kind !== "steps")
      throw new Error("it was not examined");
    const current = await primary.admit();
    const id = newTxnId(deps.clock.wallMs());
    const tag = keys.receiptTag(owner, id);
    const isolation = contents.isolation === "serializable" ? contents.isolation : "repeatable read";
    const principal = { ...caller.principal, owner, id: contents.key, role: contents.role };
    const onLost = config.replayHoldMs === 0 ? undefined : contents.onLost;
    const kept = keeper.begin(
      { id, form: "one_shot", isolation, readOnly: false, keep: true, onLost, redoOf: item.root.id },
      principal,
    );
    const leave = active.begin({ id, owner }) ?? (() => undefined);
    const attempt: Attempt = {
      id,
      tag,
      primaryEpoch: current,
      readOnly: false,
      owner,
      digest: INTERACTIVE,
      announced: null,
      exposed: null,
      trace: null,
      kept,
    };
    let open: OpenTransaction | null = null;
    let isSent = false;
    try {
      attempt.exposed = (await this.#admitted(owner, caller.signal)).exposed;
      const settings = { role: contents.role, readOnly: false, isolation, contents, id, tag } as const;
      open = await openFor(this.#parts, current, { ...caller, principal }, settings);
      const ran = await runIn(open, lost, examined, {
        root: rootOf(item, id),
        since,
        signal: caller.signal,
        overtakenBy: this.#overtakenBy(items, current)(item),
      });
      if (ran === "taken") return { outcome: "replayed", ...(await this.#byOther(current, item)) };
      if (!("results" in ran)) {
        // The database refused it because it was cancelled.
        caller.signal?.throwIfAborted();
        return { outcome: "conflict", ...ran };
      }
      kept?.add(statementsOf(lost));
      kept?.answered(ran.results);
      const transaction = open;
      open = null;
      isSent = true;
      const intent = {
        level: config.exposure.level,
        endsWithinMs: lifespanMs(config.totalTimeoutMs, "one_shot"),
        ...(lost.metadata !== undefined && { metadata: lost.metadata }),
      };
      const onBeforeSend = attempts.announcing(attempt, intent);
      const executing = attempts.timed(attempt, "interactive", () =>
        transaction.commit([], { onBeforeSend }),
      );
      const committed = await outcomes.conclude(attempt, executing, () => undefined);
      if (kept !== null) all.push(kept);
      return { outcome: "replayed", replayedBy: id, token: tokens.of(committed) };
    } finally {
      // From COMMIT on `conclude` decides whether it counts as exposed.
      if (!isSent) outcomes.withdraw(attempt);
      await open?.rollback();
      leave();
    }
  }

  /** Rows that a replay wrote count as old only if what it brought back comes before. */
  #overtakenBy(items: readonly Item[], { node }: PrimaryEpoch): Overtaken {
    return (item) => async (writers) =>
      overtaking(
        items,
        item,
        await this.#asked(this.contents.rootsBehind(node, { since: item.since ?? "", writers })),
      );
  }

  /** Another operator was faster. */
  async #byOther(current: PrimaryEpoch, { root }: Item): Promise<Pick<End, "replayedBy">> {
    const [by] = await this.#asked(this.contents.redone(current.node, [root]));
    return by == null ? {} : { replayedBy: by };
  }

  /** Near the limit of what may be lost, it waits like any other writer. */
  async #admitted(owner: bigint, signal: AbortSignal | undefined): Promise<Admitted> {
    const { exposure, deps } = this.#parts;
    for (let attempt = 1; ; attempt++) {
      try {
        const admitted = exposure.admit(owner, "commit");
        await admitted.slow;
        return admitted;
      } catch (cause) {
        if (attempt >= ADMIT_TRIES || signal?.aborted === true) throw cause;
        await sleep(deps.clock, ADMIT_PAUSE_MS, signal);
      }
    }
  }
}

/** Nothing was applied, and another try may succeed. */
function mayPass(cause: unknown): boolean {
  return cause instanceof HighwaterError && cause.outcome === "not_applied" && cause.code !== "forbidden";
}

function seqOf(primary: Primary, epoch: EpochId): number {
  return primary.recordOf(epoch)?.seq ?? 0;
}

/** Walks up to the primary's history, and returns the epoch that followed there. */
function sinceOf(primary: Primary, history: readonly EpochId[], epoch: EpochId): EpochId | null {
  let at: EpochId | null = epoch;
  for (let left = history.length + primary.epochs.records().length; at !== null && left >= 0; left--) {
    const place = history.indexOf(at);
    // The newest comes first.
    if (place >= 0) return history[place - 1] ?? null;
    at = primary.parentOf(at);
  }
  return null;
}

/** The database's message may quote values. */
function withoutContents({ lost: _lost, redone: _redone, error: _error, ...rest }: End): End {
  return rest;
}

function reportOf(
  mine: readonly Item[],
  about: Pick<ReplayReport, "dryRun" | "trackers"> & {
    readonly principal: Principal;
    readonly items: readonly Item[];
  },
): ReplayReport {
  const { owner, scopes } = about.principal;
  const own = new Set(
    about.items.filter(({ lost }) => lost.owner === owner).map(({ lost }) => lost.id as string),
  );
  const transactions = mine.map(({ lost: { id, epoch: attempt, answered }, end }): ReplayOutcome => {
    if (end === null) throw new Error("a transaction has no outcome");
    // Another owner's id is not shown.
    const { because, ...rest } = scopes.has("contents:read") ? end : withoutContents(end);
    return { id, attempt, answered, ...rest, ...(because !== undefined && own.has(because) && { because }) };
  });
  const count = (outcome: ReplayOutcome["outcome"]): number =>
    transactions.filter((each) => each.outcome === outcome).length;
  return {
    dryRun: about.dryRun,
    lostWrites: transactions.length,
    replayed: count("replayed"),
    conflicts: count("conflict"),
    unrecoverable: count("unrecoverable"),
    trackers: about.trackers,
    transactions,
  };
}
