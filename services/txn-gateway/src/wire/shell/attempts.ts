// Runs the wire's transactions with receipts through the pipeline of all others: admitted by
// exposure, announced before COMMIT, positioned after it, and settled when the outcome is unknown.
import {
  type EpochId,
  HighwaterError,
  NO_ID,
  parseAtRisk,
  parseTxnId,
  type TxnId,
  type ValueAtRisk,
} from "@highwater/protocol";
import { type DeploymentKeys, type Principal } from "@highwater/service";
import { lifespanMs } from "../../attempts/bounds.ts";
import { type Config } from "../../config.ts";
import { type Keeper } from "../../contents/keeper.ts";
import { type Deps } from "../../deps.ts";
import { type Exposed, type Exposure } from "../../exposure/exposure.ts";
import { type Metrics } from "../../metrics.ts";
import { type Durability, type AttemptVerdict } from "../../outcomes/durability.ts";
import { type LookUps } from "../../outcomes/look-ups.ts";
import { type Settler } from "../../outcomes/settler.ts";
import { WireContents } from "./contents.ts";
import { type PrimaryEpoch } from "../../primary/primary.ts";
import { type TransactionTrace } from "../../tracing/transaction-trace.ts";
import { type Announced, type Announcer } from "../../trackers/announcer.ts";
import { INTERACTIVE } from "../../txn/digest.ts";
import { newTxnId } from "../../txn/new-id.ts";
import { type Tokens } from "../../txn/tokens.ts";
import { type OwnAttempt } from "../model/attempt.ts";
import { type Report } from "../frames/build.ts";
import { type KeptFacts, type ReceiptValues, type Settings } from "../model/own.ts";
import { type RecordedStatements } from "../model/recorder.ts";
import { type Keeping } from "../model/state.ts";
import { type Position } from "../positions.ts";

export interface WireAttemptContext {
  readonly config: Pick<Config, "totalTimeoutMs">;
  readonly metrics: Pick<Metrics, "refusals">;
  readonly deps: Pick<Deps, "clock">;
  readonly keys: Pick<DeploymentKeys, "receiptTag">;
  readonly tokens: Tokens;
  readonly announcer: Announcer;
  readonly keeper: Keeper;
  readonly exposure: Exposure;
  readonly lookUps: LookUps;
  readonly settler: Settler;
  readonly durability: Durability;
}

/** The owner and epoch of a session's transactions. */
export interface SessionOwner {
  readonly principal: Principal;
  /** Its role's password is not known here, so nothing can be run as the role again. */
  readonly isRelayed: boolean;
  readonly primaryEpoch: PrimaryEpoch;
}

export type UsedOutcome = "committed" | "redone" | "never" | "unknown";

/** The tag of an invalid id, even one that PostgreSQL accepts: the server refuses the receipt. */
const NO_TAG = "";
/** How much of a wrong value an error quotes. */
const SHOWN_MAX = 50;
const VERDICT_MS = 10_000;
const OUTCOME_MS = 10_000;
/** By then the trackers know the next epoch. */
const POSITION_MS = 1_000;
const REFUSED_HINT = "Try again later, or with highwater.ack = durable.";

export class WireAttempts {
  readonly #parts: WireAttemptContext;

  constructor(parts: WireAttemptContext) {
    this.#parts = parts;
  }

  /**
   * How long a fast transaction of the owner has to wait before it may write, or why it may not:
   * exposure is at its limit.
   */
  admission(owner: bigint, atRisk: string | null): number | Report {
    try {
      return this.#parts.exposure.check(owner, "commit", valueIn(atRisk));
    } catch (cause) {
      if (!(cause instanceof HighwaterError)) throw cause;
      this.#parts.metrics.refusals.add(cause.code);
      const message = cause.details.detail ?? cause.message;
      const code = cause.code === "invalid_request" ? "22023" : "53400";
      return { severity: "ERROR", code, message, hint: REFUSED_HINT };
    }
  }

  /** How sessions of the principal are kept; null: nothing can be kept. */
  keeping(principal: Principal): Keeping | null {
    return this.#parts.keeper.sessions(principal);
  }

  /** The token of a commit without a receipt. */
  positionToken(owner: bigint, { epoch, offset }: Position): string {
    return this.#parts.tokens.of({ kind: "position", id: NO_ID, epoch, offset, attempt: epoch, owner });
  }

  /** After the end of its epoch: true when everything up to the position is known to be durable. */
  async positionVerdict(owner: bigint, position: Position, level: string): Promise<boolean> {
    const token = this.positionToken(owner, position);
    return (await this.#parts.durability.await({ token, ...position, level }, POSITION_MS)) === "durable";
  }

  /**
   * The outcome of the transaction that already has a receipt under this id. `never`: it has not
   * committed and cannot. `redone`: the same, and a replay has brought it back.
   */
  async outcomeOf([id, tag]: ReceiptValues, epoch: EpochId): Promise<UsedOutcome> {
    const settled = await this.#parts.settler.settle({ id: id as TxnId, tag }, epoch, {
      limitMs: OUTCOME_MS,
      whenHeld: "answer_held",
    });
    if (settled?.kind === "committed") return "committed";
    if (settled?.kind === "lost" && settled.isRedone === true) return "redone";
    return settled?.kind === "aborted" || settled?.kind === "lost" ? "never" : "unknown";
  }

  /** Waits as `admission` demands. Returns a function that ends the wait early. */
  slow(delayMs: number, callback: () => void): () => void {
    return this.#parts.exposure.slow(delayMs, callback);
  }

  /**
   * At the limit of exposure the transaction is answered when it is durable: null without an id of
   * the client, or an attempt that covers nothing. `ran`: what is to be kept of it.
   */
  begin(
    of: SessionOwner,
    settings: Settings,
    { level, ran }: { readonly level: string; readonly ran: RecordedStatements | null },
  ): WireAttempt | null {
    const { exposure, deps, config, announcer, keys } = this.#parts;
    const id = settings.id === null ? newTxnId(deps.clock.wallMs()) : parseTxnId(settings.id);
    const { primaryEpoch } = of;
    const { epoch } = primaryEpoch;
    const { owner } = of.principal;
    const digest = INTERACTIVE.toString(10);
    if (id === undefined) {
      const refused = [settings.id?.toLowerCase() ?? "", NO_TAG, epoch, digest] as const;
      const nothing = { exposed: null, announced: null, atRisk: null, contents: null };
      return new WireAttempt(
        this.#parts,
        { owner, primaryEpoch, isAdmittedFast: false, ...nothing },
        refused,
      );
    }
    let exposed: Exposed | null = null;
    let atRisk: string | null = null;
    let isAdmittedFast = false;
    try {
      exposed = exposure.admitBegun(owner, settings.ack, valueIn(settings.atRisk));
      ({ atRisk } = settings);
      isAdmittedFast = settings.ack === "commit";
    } catch (cause) {
      if (!(cause instanceof HighwaterError)) throw cause;
      // With the client's id it gets its receipt all the same, because it must not run twice.
      if (settings.id === null) return null;
    }
    const tag = keys.receiptTag(owner, id);
    const endsWithinMs = lifespanMs(config.totalTimeoutMs, "one_shot");
    const announced = announcer.announce({ owner, primaryEpoch, id, exposed }, { level, endsWithinMs });
    const contents = ran === null ? null : this.#contents(of, settings, { id, level, ran });
    const state = { owner, primaryEpoch, exposed, isAdmittedFast, announced, atRisk, contents };
    return new WireAttempt(this.#parts, state, [id, tag, epoch, digest]);
  }

  /** Null: they cannot be kept now, and the transaction runs without. */
  #contents(
    { principal, isRelayed }: SessionOwner,
    { ack, keep }: Settings,
    { id, level, ran }: { readonly id: TxnId; readonly level: string; readonly ran: RecordedStatements },
  ): WireContents | null {
    const request = { id, form: "wire", isolation: "read committed", readOnly: false, ack, level } as const;
    try {
      const kept = this.#parts.keeper.begin({ ...request, keep: keep ?? undefined }, principal);
      return kept === null ? null : new WireContents(kept, ran, isRelayed);
    } catch (cause) {
      if (cause instanceof HighwaterError) return null;
      throw cause;
    }
  }
}

interface AttemptState {
  readonly owner: bigint;
  readonly primaryEpoch: PrimaryEpoch;
  /** Null: they are not kept. */
  readonly contents: WireContents | null;
  /** Null: without trackers nothing is counted, or exposure was at its limit. */
  readonly exposed: Exposed | null;
  /** Exposure has admitted it in commit mode. */
  readonly isAdmittedFast: boolean;
  readonly announced: Announced | null;
  readonly atRisk: string | null;
}

const valueIn = (text: string | null): ValueAtRisk | undefined =>
  text === null ? undefined : parseAtRisk(text);

export class WireAttempt implements OwnAttempt {
  readonly receipt: ReceiptValues;
  readonly #parts: WireAttemptContext;
  readonly #state: AttemptState;
  #isOver = false;

  constructor(parts: WireAttemptContext, state: AttemptState, receipt: ReceiptValues) {
    this.#parts = parts;
    this.#state = state;
    this.receipt = receipt;
  }

  get fault(): string | null {
    const [id, tag] = this.receipt;
    return tag === NO_TAG
      ? `highwater.id is "${id.slice(0, SHOWN_MAX)}"; it must be a UUIDv7 in its usual form, such as 01a2199f-bad1-7d6c-8000-000000000000`
      : null;
  }

  get id(): TxnId {
    return this.receipt[0] as TxnId;
  }

  /** It was admitted with its value, so that its answer need not wait. */
  covers(atRisk: string | null): boolean {
    const { isAdmittedFast, atRisk: admitted } = this.#state;
    return isAdmittedFast && (atRisk === null || atRisk === admitted);
  }

  get isKept(): boolean {
    return this.#state.contents !== null;
  }

  /** Its contents say what its client waits for, which is not known before its COMMIT. */
  acknowledge(ack: "commit" | "durable", level: string): void {
    this.#state.contents?.kept.acknowledge({ ack, level });
  }

  /** Resolves when a tracker has its contents, or cannot keep them; null: they are not kept. */
  whenKept(): Promise<boolean> | null {
    return this.#state.contents?.kept.whenReached() ?? null;
  }

  /** The client has got the answer to its COMMIT, or nothing of it. */
  answered(how: "yes" | "no"): void {
    this.#state.contents?.kept.answerEnded(how);
  }

  written(facts: KeptFacts | null): void {
    if (this.#state.contents !== null) this.#state.contents.facts = facts;
  }

  withdraw(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { announced, exposed } = this.#state;
    announced?.withdraw();
    if (exposed !== null) this.#parts.exposure.release(exposed);
  }

  /** It has committed at or below the position. Returns its token. */
  committed({ epoch, offset }: Position, trace: TransactionTrace | null = null): string {
    const { announced, exposed, owner } = this.#state;
    if (!this.#isOver) {
      this.#isOver = true;
      announced?.position(offset);
      this.#state.contents?.committed(announced, { epoch, offset });
      if (exposed !== null) {
        exposed.trace = trace;
        this.#parts.exposure.commit(exposed, epoch, offset);
      }
      const [, tag] = this.receipt;
      this.#parts.lookUps.known.note({ tag }, { attempt: epoch, epoch, offset });
    }
    return this.#parts.tokens.of({ kind: "write", id: this.id, epoch, offset, attempt: epoch, owner });
  }

  /** The session has ended without a known outcome: settles the id. */
  unknown(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { announced, exposed, primaryEpoch } = this.#state;
    if (announced === null) return;
    const [id, tag] = this.receipt;
    const key = { id: id as TxnId, tag };
    const settling = this.#parts.settler.settle(key, primaryEpoch.epoch, {
      limitMs: Number.POSITIVE_INFINITY,
    });
    void settling.then((settled) => {
      if (settled?.kind === "aborted") announced.withdraw();
      if (settled?.kind === "committed") {
        if (settled.attempt === primaryEpoch.epoch && settled.epoch === primaryEpoch.epoch)
          announced.position(settled.offset);
        if (exposed !== null) this.#parts.exposure.commit(exposed, settled.epoch, settled.offset);
      } else if (exposed !== null && settled !== null) this.#parts.exposure.release(exposed);
    });
  }

  /** After the end of its epoch: the trackers' verdict. */
  verdict(position: Position, level: string): Promise<AttemptVerdict> {
    const token = this.committed(position);
    return this.#parts.durability.await({ token, ...position, level }, VERDICT_MS);
  }
}
