// Transactions that applications commit on connections of their own: announces each before its
// client may commit it, and finds out what became of it. Owns the tickets that are open here; how
// an attempt ends is in outcomes/.
import { randomBytes } from "node:crypto";
import {
  ERRORS,
  HighwaterError,
  ownedName,
  type RollbackResponse,
  type Ticket,
  type TransactionResponse,
} from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import { type DeploymentKeys, NOBODY, requireScope } from "@highwater/service";
import { lifespanMs } from "../attempts/bounds.ts";
import { type Config } from "../config.ts";
import { type Deps } from "../deps.ts";
import { type Exposure } from "../exposure/exposure.ts";
import { type Attempt, type Outcomes } from "../outcomes/outcomes.ts";
import { type Primary } from "../primary/primary.ts";
import { RETRY_MS } from "../retry.ts";
import { type Announced, type Announcer } from "../trackers/announcer.ts";
import { type Caller } from "../txn/caller.ts";
import { checkIdWindow } from "../txn/id-window.ts";
import { type AcceptedEnd, type AcceptedTicket } from "../txn/request.ts";
import { encodeTicket, openTicket, type TicketContent } from "./ticket-text.ts";

export interface TicketContext {
  readonly config: Config;
  readonly deps: Pick<Deps, "clock">;
  readonly keys: DeploymentKeys;
  readonly primary: Primary;
  readonly exposure: Exposure;
  readonly announcer: Announcer;
  readonly outcomes: Outcomes;
}

interface Open {
  readonly attempt: Attempt;
  readonly ticket: Ticket;
  /** Monotonic, as the others. */
  readonly issuedAtMs: number;
  readonly deadlineMs: number;
  /** When to look for its receipt, should its client not report its end here. */
  lookAtMs: number;
  /** What its client was the first to ask. */
  ending: Promise<TransactionResponse> | null;
}

/** A tracker writes an announcement to disk within milliseconds. */
const ANNOUNCE_MS = 5_000;
const SWEEP_MS = 500;
/** Most are reported by then. From one look to the next it takes twice as long. */
const FIRST_LOOK_MS = 1_000;
const OWNER_SHARE = 0.5;
const DIGEST_BYTES = 8;

export class Tickets {
  readonly #parts: TicketContext;
  /** By `ownedName`. */
  readonly #open = new Map<string, Open>();
  readonly #owners = new Map<bigint, number>();
  #stopSweep: (() => void) | null = null;

  constructor(parts: TicketContext) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * Announces the transaction. The same id again gets the same ticket. Errors: `forbidden`,
   * `too_many_open`, `exposure_limit`, `overloaded` when no tracker has it in time, those of an
   * id's window and of the primary.
   */
  async issue(request: AcceptedTicket, { principal }: Caller): Promise<Ticket> {
    requireScope(principal, "write");
    const { primary, config, exposure, announcer, keys } = this.#parts;
    const { id } = request;
    const { owner, limits, minLevel } = principal;
    // The client's own connection answers at the commit point, and nothing here can hold it.
    if (minLevel !== undefined)
      throw new HighwaterError("forbidden", {
        detail: `The key's minimum level is ${minLevel}, and a connection of your own answers before its commit is durable; send the transaction to the gateway, or use a key without a minimum level.`,
      });
    checkIdWindow(id, {
      nowMs: primary.knownServerMs(),
      retentionMs: config.retentionMs,
      futureMs: config.idFutureMs,
    });
    const primaryEpoch = await primary.admitWrite();
    const known = this.#open.get(ownedName({ id, owner }));
    if (known !== undefined && known.attempt.primaryEpoch.epoch === primaryEpoch.epoch) {
      await this.#announced(known.attempt);
      return known.ticket;
    }
    this.#refuseAbove(owner);
    const { exposed, slow } = exposure.admit(owner, "commit", request.atRisk);
    const lifeMs = limits.totalTimeoutMs ?? config.totalTimeoutMs;
    const content: TicketContent = {
      id,
      owner,
      epoch: primaryEpoch.epoch,
      digest: makeDigest(),
      deadlineMs: Math.ceil(primary.serverNowMs() + lifeMs),
    };
    const attempt: Attempt = {
      ...this.#attemptOf(content),
      announced: announcer.announce(
        { id, owner, primaryEpoch, exposed },
        { ...request, endsWithinMs: lifespanMs(lifeMs, "one_shot") },
      ),
      exposed,
    };
    const { epoch, digest } = content;
    const ticket = { id, tag: attempt.tag, epoch, digest: String(digest), lifeMs };
    const open = this.#enter(attempt, { ...ticket, ticket: encodeTicket(content, keys) }, lifeMs);
    if (slow !== null) await slow;
    await this.#announced(attempt);
    return open.ticket;
  }

  /** Errors: those of an outcome; `invalid_token`, and `forbidden` for another owner's ticket. */
  async end(
    { ticket: text, ended, level }: AcceptedEnd,
    { principal, signal }: Caller,
  ): Promise<TransactionResponse | RollbackResponse> {
    requireScope(principal, "write");
    const { keys, outcomes } = this.#parts;
    const content = openTicket(text, keys);
    if (content.owner !== principal.owner)
      throw new HighwaterError("forbidden", { detail: "The ticket belongs to another owner." });
    const { id, digest } = content;
    const name = ownedName(content);
    const found = this.#open.get(name);
    const open = found?.attempt.digest === digest ? found : undefined;
    if (ended === "rollback") {
      if (open !== undefined && open.ending === null) {
        outcomes.withdraw(open.attempt);
        this.#leave(name, open);
      }
      return { id, state: "aborted" };
    }
    if (open === undefined) return this.#confirm(this.#attemptOf(content), level, signal);
    open.ending ??= this.#confirmOpen(name, open, level);
    return open.ending;
  }

  /** Announcements and exposure of what is open stay: trackers settle it. */
  stop(): void {
    this.#stopSweep?.();
    this.#open.clear();
  }

  #attemptOf({ id, owner, epoch, digest }: TicketContent): Attempt {
    const tag = this.#parts.keys.receiptTag(owner, id);
    const primaryEpoch = { node: this.#parts.primary.current?.node ?? "", epoch };
    const about = { readOnly: false, owner, digest, trace: null };
    return { id, tag, primaryEpoch, ...about, announced: null, exposed: null };
  }

  async #confirmOpen(name: string, open: Open, level: string): Promise<TransactionResponse> {
    try {
      // The first to ask may go away, and others wait for the same.
      const answer = await this.#confirm(open.attempt, level, undefined);
      this.#leave(name, open);
      return answer;
    } catch (cause) {
      open.ending = null;
      if (isFinal(cause)) this.#leave(name, open);
      throw cause;
    }
  }

  async #confirm(
    attempt: Attempt,
    level: string,
    signal: AbortSignal | undefined,
  ): Promise<TransactionResponse> {
    const { outcomes, announcer, primary } = this.#parts;
    const committed = await outcomes.confirm(attempt, () => undefined);
    // Another gateway issued the ticket, and does not know the position yet.
    if (attempt.announced === null && isCurrent(attempt, committed, primary)) {
      const announced = announcer.announce(attempt, { level, endsWithinMs: lifespanMs(0, "one_shot") });
      announced.position(committed.offset);
      attempt.announced = announced;
    }
    const how = { ack: "commit", level, maxWaitMs: 0, signal } as const;
    const { body } = await outcomes.answer({ ...committed, results: [] }, attempt.announced, how);
    return body;
  }

  /** Errors: `overloaded`; the ticket is withdrawn then, also from others who wait for it. */
  async #announced(attempt: Attempt): Promise<void> {
    const { announced } = attempt as { announced: Announced };
    const isReached = await within(announced.whenReached(), this.#parts.deps.clock, ANNOUNCE_MS);
    const name = ownedName(attempt);
    const open = this.#open.get(name);
    if (open?.attempt === attempt) {
      if (isReached) return;
      this.#parts.outcomes.withdraw(attempt);
      this.#leave(name, open);
    }
    throw new HighwaterError("overloaded", {
      detail: `No tracker has acknowledged the announcement within ${String(ANNOUNCE_MS)} ms.`,
      retryAfterMs: RETRY_MS.room,
    });
  }

  #refuseAbove(owner: bigint): void {
    const { maxTickets } = this.#parts.config;
    refuseAbove("maxTickets", maxTickets, this.#open.size);
    const own = this.#owners.get(owner) ?? 0;
    if (owner !== NOBODY) refuseAbove("half of maxTickets", Math.floor(maxTickets * OWNER_SHARE), own);
  }

  #enter(attempt: Attempt, ticket: Ticket, lifeMs: number): Open {
    const nowMs = this.#parts.deps.clock.monotonicMs();
    const deadlineMs = nowMs + lifespanMs(lifeMs, "one_shot");
    const times = { issuedAtMs: nowMs, deadlineMs, lookAtMs: nowMs + FIRST_LOOK_MS };
    const open: Open = { attempt, ticket, ...times, ending: null };
    const name = ownedName(attempt);
    const before = this.#open.get(name);
    // Of an epoch that has ended: it commits no more.
    if (before !== undefined) this.#abandon(name, before);
    this.#open.set(name, open);
    this.#owners.set(attempt.owner, (this.#owners.get(attempt.owner) ?? 0) + 1);
    this.#stopSweep ??= this.#sweepLater();
    return open;
  }

  #leave(name: string, open: Open): void {
    if (this.#open.get(name) !== open) return;
    this.#open.delete(name);
    const { owner } = open.attempt;
    const left = (this.#owners.get(owner) ?? 1) - 1;
    if (left > 0) this.#owners.set(owner, left);
    else this.#owners.delete(owner);
  }

  #sweepLater(): () => void {
    return this.#parts.deps.clock.after(SWEEP_MS, () => {
      this.#sweep();
      this.#stopSweep = this.#open.size === 0 ? null : this.#sweepLater();
    });
  }

  /** A client may report the end to another gateway, or die with its COMMIT answered. */
  #sweep(): void {
    const nowMs = this.#parts.deps.clock.monotonicMs();
    for (const [name, open] of this.#open) {
      if (open.ending !== null) continue;
      if (nowMs >= open.deadlineMs) this.#abandon(name, open);
      else if (nowMs >= open.lookAtMs) {
        open.lookAtMs = 2 * nowMs - open.issuedAtMs;
        void this.#look(name, open);
      }
    }
  }

  async #look(name: string, open: Open): Promise<void> {
    if (await this.#parts.outcomes.hasCommitted(open.attempt)) this.#leave(name, open);
  }

  #abandon(name: string, open: Open): void {
    this.#leave(name, open);
    // Where nothing is counted, nothing has to be known.
    if (open.attempt.exposed !== null) void this.#parts.outcomes.settleAbandoned(open.attempt);
  }
}

function isCurrent(
  { primaryEpoch: { epoch } }: Attempt,
  committed: { readonly attempt: string; readonly epoch: string },
  primary: Primary,
): boolean {
  return (
    committed.attempt === epoch && committed.epoch === epoch && primary.current?.epoch === committed.epoch
  );
}

/** Nothing more will become known of it. */
function isFinal(cause: unknown): boolean {
  if (!(cause instanceof HighwaterError) || cause.code === "commit_unconfirmed") return false;
  return cause.outcome !== "unknown" && ERRORS[cause.code].retry !== "wait";
}

/** 63 bits, never 0, which tombstones have. */
function makeDigest(): bigint {
  return BigInt.asUintN(63, randomBytes(DIGEST_BYTES).readBigUInt64BE()) || 1n;
}

function refuseAbove(name: string, value: number, open: number): void {
  if (open < value) return;
  throw new HighwaterError("too_many_open", {
    detail: `All ${String(value)} tickets are in use (${name}); report how one ended, or retry later.`,
    limit: { name, value },
    retryAfterMs: RETRY_MS.room,
  });
}

/** False when the time is over first. */
async function within(work: Promise<void>, clock: Deps["clock"], limitMs: number): Promise<boolean> {
  const over = new AbortController();
  const limit = sleep(clock, limitMs, over.signal).then(() => false);
  const done = await Promise.race([work.then(() => true), limit]);
  over.abort();
  return done;
}
