// Finds the state of a transaction by its id: from its receipt, a tracker's verdict and the marks.
import {
  type EpochId,
  formatOffset,
  type Offset,
  type OwnedId,
  type TransactionStateResponse,
  type TxnId,
} from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import { type DeploymentKeys } from "@highwater/service";
import { type ActiveTransactions } from "../attempts/active.ts";
import { type Deps } from "../deps.ts";
import { type FlushHelp } from "../primary/flush.ts";
import { type Primary } from "../primary/primary.ts";
import { type Losses } from "../trackers/losses.ts";
import { achievedLevel } from "../txn/minimum.ts";
import { type RequestRules } from "../txn/request.ts";
import { stateOf } from "../txn/answer.ts";
import { type Tokens } from "../txn/tokens.ts";
import { type AttemptVerdict, type Durability } from "./durability.ts";
import { type Finality } from "./finality.ts";
import { type LookUps } from "./look-ups.ts";
import { type MarkBoard } from "./marks.ts";
import { type Settled } from "./settled.ts";

export interface InspectionContext {
  readonly clock: Deps["clock"];
  readonly keys: Pick<DeploymentKeys, "receiptTag">;
  readonly active: ActiveTransactions;
  readonly primary: Primary;
  readonly lookUps: LookUps;
  readonly marks: MarkBoard;
  readonly durability: Durability;
  readonly flush: FlushHelp;
  readonly finality: Finality;
  readonly losses: Losses;
  readonly tokens: Tokens;
  readonly rules: Pick<RequestRules, "levels">;
}

/**
 * So long at least a look-up waits for a tombstone to be safe; for trackers to report a loss; and
 * for the mark of a position that it has just read, above which the log goes on. Two polls of an
 * idle tracker and a margin: what an asked replica answers to the first poll counts in the second.
 */
const LEAST_WAIT_MS = 3_000;

export class Inspection {
  readonly #parts: InspectionContext;

  constructor(parts: InspectionContext) {
    this.#parts = parts;
  }

  /** With `waitMs`: as soon as it is durable or lost, or when the time is over. */
  async state(
    id: TxnId,
    { owner, level, waitMs }: { readonly owner: bigint; readonly level: string; readonly waitMs: number },
    signal: AbortSignal | undefined,
  ): Promise<TransactionStateResponse> {
    const { clock, keys, primary, lookUps, marks, durability, flush, finality, tokens } = this.#parts;
    const deadlineMs = clock.monotonicMs() + waitMs;
    const leftMs = (): number => Math.max(0, deadlineMs - clock.monotonicMs());
    if (!(await this.#isOver({ id, owner }, waitMs))) return { id, state: "active", marks: marks.newest };
    const primaryEpoch = await primary.admit(leftMs());
    const tag = keys.receiptTag(owner, id);
    const settled = await lookUps.find(primaryEpoch, { id, tag }, "primary_unavailable");
    // It must not be run anew yet: a failover could still undo that it was settled.
    if ((await finality.await(settled, Math.max(LEAST_WAIT_MS, leftMs()), signal)) !== "reached")
      return { id, state: "active", marks: marks.newest };
    if (settled.kind === "lost") {
      // Whether the service brings it back is not decided yet.
      if (primary.hold.leftMs(settled.epoch) > 0) return { id, state: "active", marks: marks.newest };
      const answer = await this.#ofLost({ id, owner, level }, Math.max(LEAST_WAIT_MS, leftMs()), signal);
      return { ...answer, ...(settled.isRedone === true && { redo: "service" }) };
    }
    if (settled.kind !== "committed")
      return { id, state: stateWithoutCommit(settled.kind), marks: marks.newest };
    const { epoch, offset, attempt, isFirst } = settled;
    // A position that was read just now may lie above what anybody else will bring to disk soon.
    if (epoch === primaryEpoch.epoch) flush.committed(primaryEpoch, offset);
    const token = tokens.of({ kind: "write", id, epoch, offset, attempt, owner });
    // Without a mark to wait for there is no news of the level.
    const leastMs = isFirst && marks.of(epoch, level) !== undefined ? LEAST_WAIT_MS : 0;
    const limitMs = Math.max(leftMs(), leastMs);
    const verdict = await durability.judge({ token, epoch, offset, level }, limitMs, signal);
    const position = { epoch, offset: formatOffset(offset) };
    const { levels } = this.#parts.rules;
    const proven = verdict === "durable" ? level : null;
    const byMarks = isStanding(verdict) ? marks.strongest({ epoch, offset }, levels) : null;
    const achieved = achievedLevel(byMarks, proven, levels);
    return { id, state: stateOf(verdict), token, position, level, achieved, marks: marks.newest };
  }

  /**
   * As the trackers say, which know how durable it had been; what none of them holds is lost at
   * every level.
   */
  async #ofLost(
    { id, owner, level }: OwnedId & { readonly level: string },
    limitMs: number,
    signal: AbortSignal | undefined,
  ): Promise<TransactionStateResponse> {
    const { losses, marks, tokens } = this.#parts;
    const loss = await losses.ask({ id, owner }, { level, limitMs }, signal);
    const { newest } = marks;
    switch (loss?.verdict) {
      // Not published yet: it may have been durable at the level, or a promise of it may be broken.
      case "pending":
        return { id, state: "active", marks: newest };
      case "lost":
      case "durable":
      case "broken": {
        const { verdict: state, attempt, position } = loss;
        const epoch = position.epoch as EpochId;
        const offset = BigInt(position.offset) as Offset;
        const token = tokens.of({ kind: "write", id, epoch, offset, attempt: attempt as EpochId, owner });
        return { id, state, token, position, level, marks: newest };
      }
      default:
        return { id, state: "lost", marks: newest };
    }
  }

  /** False when it is still under way here at the end of the time. */
  async #isOver(of: OwnedId, waitMs: number): Promise<boolean> {
    const { active, clock } = this.#parts;
    const ended = active.ended(of);
    if (ended === null) return true;
    if (waitMs === 0) return false;
    const over = new AbortController();
    await Promise.race([ended, sleep(clock, waitMs, over.signal)]);
    over.abort();
    return active.ended(of) === null;
  }
}

/** It is in the history, as far as anybody knows. */
function isStanding(verdict: AttemptVerdict): boolean {
  return verdict === "pending" || verdict === "durable";
}

function stateWithoutCommit(kind: Exclude<Settled["kind"], "committed">): TransactionStateResponse["state"] {
  return kind === "absent" || kind === "held" || kind === "out_of_window" ? "unknown" : kind;
}
