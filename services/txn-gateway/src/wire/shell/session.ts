// One client's session: its two sockets, joined by the model. Owns backpressure in both directions
// and the end of a session.
import { type PrimaryEpoch } from "../../primary/primary.ts";
import { errorResponse, noticeResponse, parameterStatus, type Report } from "../frames/build.ts";
import { FrameError } from "../frames/scanner.ts";
import { ClientLeg } from "../model/client-leg.ts";
import { type Gate, HoldQueue } from "../model/hold-queue.ts";
import { ACHIEVED_PARAMETER, sayKept, TOKEN_PARAMETER } from "../model/holds.ts";
import { atLeast, type ReceiptValues, type Settings } from "../model/own.ts";
import { type RecordedStatements } from "../model/recorder.ts";
import { ServerLeg } from "../model/server-leg.ts";
import { type Outside, SessionState, type TransactionStatus } from "../model/state.ts";
import { AfterWait, type Reader } from "./after-wait.ts";
import { asOf, refuseShown, sayFloor } from "./durable-only.ts";
import { endOf, FAILED_OVER, judgeHeld } from "./failover.ts";
import { IDLE, IN_THE_WAY, PROMOTED, RELEASED, REVOKED, SHUTTING_DOWN, UNREAD, USED } from "./reports.ts";
import { Slowdown } from "./slowdown.ts";
import { type ReadTraces } from "./read-traces.ts";
import { type SessionEnd } from "./server-end.ts";
import { SessionMetrics } from "./session-metrics.ts";
import { SessionTraces } from "./session-traces.ts";
import { type WireAttempt } from "./attempts.ts";
import { type Outgoing } from "./outbox.ts";
import { type SessionOptions } from "./session-options.ts";

/** When held answers use more memory than this, the server has to wait, too. */
const HELD_BYTES_MAX = 65_536;
/** A client that reads nothing keeps its socket no longer than this. */
const LINGER_MS = 5_000;

export class WireSession {
  readonly #options: SessionOptions;
  readonly #toClient: Outgoing;
  readonly #toServer: Outgoing;
  readonly #queue: HoldQueue;
  readonly #state: SessionState;
  readonly #clientLeg: ClientLeg;
  readonly #serverLeg: ServerLeg;
  /** Committed transactions whose positions are not known yet. */
  readonly #positioned = new Set<WireAttempt>();
  readonly #timers = new Map<Gate, () => void>();
  readonly #traces: SessionTraces;
  readonly #metrics: SessionMetrics;
  /** Null: the session came to the main port, or reads are not traced. */
  readonly #reads: ReadTraces | null;
  /** Null: nothing was asked yet that the session's end stops. */
  #ended: AbortController | null = null;
  /** Null: the session came to the main port. */
  readonly #afterWait: AfterWait | null;
  readonly #slowdown: Slowdown;
  #lastActiveMs: number;
  /** When the client began to send the transaction that runs, or one before it in a pipeline. */
  #askedAtMs: number | null = null;
  /** Null: the client reads as fast as answers come. */
  #fullSinceMs: number | null = null;
  /** Null: the server can send its answers. */
  #stoppedSinceMs: number | null = null;
  #isServerGone = false;
  #isClosed = false;
  #isDraining = false;
  /** The epoch has ended, and the held commits are being judged. */
  #isJudging = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    const { client, server, outbox } = options;
    this.#lastActiveMs = options.nowMs();
    const { reader, tracer, principal } = options;
    this.#traces = new SessionTraces({ tracer, owner: principal.owner, node: this.node });
    this.#metrics = new SessionMetrics(options);
    this.#reads = reader?.traces ?? null;
    this.#afterWait = reader === null ? null : this.#newAfterWait(reader);
    this.#slowdown = this.#newSlowdown();
    this.#toClient = outbox.to(client, () => {
      this.#fullSinceMs ??= options.nowMs();
      this.#stopServer();
    });
    this.#toServer = outbox.to(server, () => client.pause());
    this.#queue = new HoldQueue((bytes) => {
      this.#toClient.write(bytes);
    });
    const outside: Outside = {
      toServer: (bytes) => {
        this.#toServer.write(bytes);
      },
      wait: (gate) => {
        if (reader?.replica == null) this.#wait(gate);
        else this.#waitAtReplica(gate, reader, reader.replica);
      },
      await: (token) => {
        if (token !== "") this.#metrics.awaits();
        this.#afterWait?.begin(token, this.#state.settings);
      },
      promoted: () => {
        this.promoted();
      },
      explain: (used, gate) => {
        void this.#explain(used, gate);
      },
      warn: (faults) => {
        for (const fault of faults)
          this.#queue.push(noticeResponse({ severity: "WARNING", code: "22023", message: fault }));
      },
      strictestLevel: () => this.#strictestLevel(),
      attempt: (ran) => this.#attempt(ran),
      admission: () => this.#slowdown.admission(),
      broken: (reason) => {
        this.#fail({ severity: "FATAL", code: "08P01", message: reason });
      },
    };
    this.#state = this.#newState(outside);
    this.#clientLeg = new ClientLeg(this.#state);
    this.#serverLeg = new ServerLeg({
      state: this.#state,
      levels: options.levels,
      onReady: (status) => {
        this.#ready(status);
      },
      onStatement: (error) => {
        this.#reads?.ran(error);
      },
    });
  }

  #newState(outside: Outside): SessionState {
    const { own, least, levels, reader, keeping } = this.#options;
    const place = { isReader: reader !== null, isAtReplica: this.replica !== null };
    const state = new SessionState(this.#queue, { outside, own, least, keeping, ...place });
    state.settings = atLeast(state.settings, least, levels()).settings;
    return state;
  }

  #newAfterWait(reader: Reader): AfterWait {
    return new AfterWait({
      reader,
      after: this.#options.after,
      onEnd: (refusal) => {
        this.#arrived(refusal);
      },
      onLook: (found) => {
        this.#state.nextLook = { found };
      },
    });
  }

  #newSlowdown(): Slowdown {
    const { attempts, principal } = this.#options;
    return new Slowdown({
      ask: () => attempts.admission(principal.owner, this.#state.settings.atRisk),
      wait: (ms, callback) => attempts.slow(ms, callback),
      onEnd: () => {
        this.#unblock(() => {
          this.#clientLeg.admitted();
        });
      },
    });
  }

  #ready(status: TransactionStatus): void {
    this.#clientLeg.ready();
    if (status === "I") {
      const isPipelined = !this.#state.expected.isEmpty;
      if (!isPipelined && !this.#clientLeg.isBlocked) this.#askedAtMs = null;
      this.#traces.ended(isPipelined);
      this.#reads?.ended(isPipelined || this.#clientLeg.isBlocked);
      if (this.#afterWait !== null) this.#metrics.read(this.replica === null ? "primary" : "replica");
    }
  }

  /** Null: the session is at a replica. */
  get primaryEpoch(): PrimaryEpoch | null {
    return this.replica === null ? this.#options.primaryEpoch : null;
  }

  get replica(): string | null {
    return this.#options.reader?.replica ?? null;
  }

  /** The session's server. */
  get node(): string {
    return this.replica ?? this.#options.primaryEpoch.node;
  }

  /** Nothing runs, no transaction is open, and no answer is held. */
  get isIdle(): boolean {
    return this.#state.status === "I" && this.#state.expected.isEmpty && this.#queue.isEmpty;
  }

  get isHolding(): boolean {
    return this.#queue.oldest !== null;
  }

  /** Takes the sockets over. The arguments are bytes that were read from them before. */
  start(fromClient: Buffer, fromServer: Buffer): void {
    const { client, server } = this.#options;
    client.on("data", this.#onClient);
    client.on("drain", () => {
      this.#fullSinceMs = null;
      this.#resume();
    });
    client.on("end", () => {
      this.#toServer.flush();
      server.end();
    });
    client.on("error", () => undefined);
    client.on("close", () => {
      this.#close();
    });
    server.on("data", this.#onServer);
    server.on("drain", () => {
      if (!this.#clientLeg.isBlocked) client.resume();
    });
    server.on("close", () => {
      this.#serverGone();
    });
    if (fromServer.length > 0) this.#onServer(fromServer);
    if (fromClient.length > 0) this.#onClient(fromClient);
    if (!this.#isClosed) this.#resume();
    if (client.destroyed) this.#close();
    if (server.destroyed) this.#serverGone();
  }

  readonly #onClient = (chunk: Buffer): void => {
    this.#lastActiveMs = this.#options.nowMs();
    this.#askedAtMs ??= this.#lastActiveMs;
    this.#traces.sent();
    this.#reads?.sent();
    this.#guarded(() => {
      this.#clientLeg.push(chunk);
    });
    if (this.#clientLeg.isBlocked) this.#options.client.pause();
  };

  readonly #onServer = (chunk: Buffer): void => {
    this.#guarded(() => {
      this.#serverLeg.push(chunk);
    });
    if (this.#queue.heldBytes > HELD_BYTES_MAX) this.#stopServer();
    if (this.#clientLeg.isBlocked) this.#unblock();
    // Only now the client has the answer that may be the last one.
    if (this.#isDraining) this.drain();
  };

  /** Lets the client's deferred messages go on if the server is idle. */
  #unblock(
    work = (): void => {
      this.#clientLeg.resume();
    },
  ): void {
    const { client, server } = this.#options;
    this.#guarded(work);
    if (!this.#clientLeg.isBlocked && !server.writableNeedDrain) client.resume();
  }

  /** No input may end the process: an error in one session ends only that session. */
  #guarded(work: () => void): void {
    if (this.#isClosed) return;
    try {
      work();
    } catch (cause) {
      const reason = cause instanceof FrameError ? cause.message : "the gateway failed on a message";
      this.#fail({ severity: "FATAL", code: "08P01", message: reason });
    }
  }

  #stopServer(): void {
    const { server, nowMs } = this.#options;
    this.#stoppedSinceMs ??= nowMs();
    server.pause();
  }

  #resume(): void {
    const { client, server } = this.#options;
    if (client.writableNeedDrain || this.#queue.heldBytes > HELD_BYTES_MAX) return;
    this.#stoppedSinceMs = null;
    server.resume();
  }

  #attempt(ran: RecordedStatements | null): WireAttempt | null {
    const { attempts, principal, isRelayed, primaryEpoch, defaultLevel } = this.#options;
    const { settings, mayHaveSet } = this.#state;
    const level = mayHaveSet ? this.#strictestLevel() : (settings.level ?? defaultLevel());
    return attempts.begin({ principal, isRelayed, primaryEpoch }, settings, { level, ran });
  }

  #strictestLevel(): string {
    const { levels, defaultLevel } = this.#options;
    return levels().at(-1) ?? defaultLevel();
  }

  #wait(gate: Gate, settings = this.#state.inForce): void {
    gate.decision = "waits";
    const { positions, primaryEpoch, defaultLevel } = this.#options;
    const attempt = gate.attempt as WireAttempt | null;
    if (attempt !== null) this.#positioned.add(attempt);
    const isEarly = attempt?.covers(settings.atRisk) === true && settings.ack === "commit";
    const level = settings.level ?? defaultLevel();
    gate.level = level;
    attempt?.acknowledge(isEarly ? "commit" : "durable", level);
    this.#reads?.holds(gate, level);
    if (isEarly) positions.committed(primaryEpoch);
    const sentMs = this.#lastActiveMs;
    const askedAtMs = this.#askedAtMs ?? sentMs;
    const { isDurableOnly } = this.#state.settings;
    // While the setting is in doubt, rows are not shown, but a cancel still releases a commit.
    gate.isDurableOnly = gate.isCommit ? isDurableOnly : settings.isDurableOnly;
    this.#metrics.committed(gate, { sentMs, isEarly, hasReceipt: attempt !== null, ack: settings.ack });
    const trace = this.#traces.committed(gate, {
      id: attempt?.id ?? null,
      ack: isEarly ? "commit" : "durable",
      level,
      sentMs,
    });
    positions.want({
      primaryEpoch,
      level: isEarly ? null : level,
      isCommit: gate.isCommit,
      onPosition: (position) => {
        this.#guarded(() => {
          trace?.committed(position);
          gate.position = position;
          if (attempt === null) return;
          this.#positioned.delete(attempt);
          const token = attempt.committed(position, trace?.transaction ?? null);
          // After the notice of a release, if the gate still waits behind another.
          gate.say(parameterStatus(TOKEN_PARAMETER, token));
        });
      },
      onEnd: (end, position) => {
        this.#guarded(() => {
          if (end === "durable") {
            if (attempt !== null) gate.say(parameterStatus(ACHIEVED_PARAMETER, isEarly ? "" : level));
            this.#traces.answered(gate, isEarly);
            if (isDurableOnly && position !== null) sayFloor(gate, position, askedAtMs, this.#options);
            const kept = isEarly ? attempt?.whenKept() : null;
            if (kept == null) this.#openKept(gate, null);
            else
              void kept.then((isKept) => {
                this.#openKept(gate, isKept);
              });
          } else {
            gate.position ??= position;
            this.epochEnded();
          }
        });
      },
    });
    if (!this.#mustHold(gate)) this.#releaseInTime(gate, settings);
  }

  /**
   * An answer at the commit point waits until a tracker has the contents, or its time is over.
   * Null: it did not wait for that.
   */
  #openKept(gate: Gate, isKept: boolean | null): void {
    if (this.#isClosed || gate.decision === "open") return;
    sayKept(gate, isKept, this.#state);
    this.#guarded(() => {
      this.#open(gate);
    });
  }

  /** Its key lets no commit be answered before it is durable. */
  #mustHold({ isCommit }: Gate): boolean {
    return isCommit && this.#options.least !== null;
  }

  /** Explains to the client that its transaction's id is used, and by which outcome. */
  async #explain(used: ReceiptValues, gate: Gate): Promise<void> {
    const { attempts, primaryEpoch } = this.#options;
    // Those of the transaction: when the outcome is known, the session may have others.
    const settings = this.#state.inForce;
    const outcome = await attempts.outcomeOf(used, primaryEpoch.epoch);
    if (this.#isClosed) return;
    gate.prefix = errorResponse(USED[outcome]);
    // In safe mode the answer must not reveal a commit that can still be lost.
    const hasEffect = outcome === "committed" || outcome === "redone";
    if (hasEffect && settings.ack === "durable") this.#wait(gate, settings);
    else this.#open(gate);
  }

  #releaseInTime(gate: Gate, { maxWaitMs }: Settings): void {
    if (maxWaitMs <= 0) return;
    const cancel = this.#options.after(maxWaitMs, () => {
      this.#release(gate);
    });
    this.#timers.set(gate, cancel);
  }

  /**
   * What looks like a commit waits until the node proves to be a replica, which commits nothing.
   */
  #waitAtReplica(gate: Gate, reader: Reader, replica: string): void {
    gate.decision = "waits";
    const settings = this.#state.inForce;
    const { readsDurably, level: asked } = settings;
    const { signal } = (this.#ended ??= new AbortController());
    const level = asked ?? this.#options.defaultLevel();
    const { look } = this.#state;
    const { isDurableOnly } = this.#state.settings;
    gate.isDurableOnly = settings.isDurableOnly;
    this.#reads?.holds(gate, readsDurably ? level : null);
    const opens = readsDurably ? reader.shown(replica, level, signal) : reader.confirmed(replica, signal);
    void opens.then((shown) => {
      if (isDurableOnly && shown !== undefined) sayFloor(gate, shown, asOf(look, shown), this.#options);
      this.#open(gate);
    });
    if (readsDurably) this.#releaseInTime(gate, settings);
  }

  #arrived(refusal: Report | null): void {
    if (this.#state.isAwaiting) this.#metrics.arrived(refusal !== null);
    this.#state.isAwaiting = false;
    if (refusal !== null && this.#state.status !== "I") {
      // Earlier results of the block may lack the token's transaction, so the session ends.
      this.#fail({ ...refusal, severity: "FATAL" });
      return;
    }
    this.#state.refusal = refusal;
    this.#unblock();
  }

  #open(gate: Gate): void {
    if (this.#isClosed || gate.decision === "open") return;
    this.#timers.get(gate)?.();
    this.#timers.delete(gate);
    // Behind another gate, it is not sent yet.
    for (const { attempt } of this.#queue.open(gate)) (attempt as WireAttempt | null)?.answered("yes");
    this.#metrics.answered(gate);
    this.#reads?.opened(gate, false);
    if (this.#isServerGone) this.#serverGone();
    else {
      this.#resume();
      if (this.#isDraining) this.drain();
    }
  }

  /** Answers before the commit is durable, with a warning. */
  #release(gate: Gate): void {
    if (gate.isDurableOnly) {
      this.#refuse(gate);
      return;
    }
    this.#givePosition(gate);
    // The token is not known yet, and the client must not keep that of an earlier transaction.
    if (gate.attempt !== null && gate.position === null) gate.say(parameterStatus(TOKEN_PARAMETER, ""));
    if (gate.attempt !== null) gate.say(parameterStatus(ACHIEVED_PARAMETER, ""));
    sayKept(gate, null, this.#state);
    gate.say(noticeResponse(RELEASED));
    this.#metrics.released();
    this.#traces.answered(gate, true);
    this.#reads?.opened(gate, true);
    this.#open(gate);
  }

  /** Its time is over, and what it shows may still be lost: an error goes out in its place. */
  #refuse(gate: Gate): void {
    this.#options.metrics.refusals.add("read_unconfirmed");
    const { isBetweenFrames } = this.#serverLeg;
    const refused = refuseShown(gate, { queue: this.#queue, state: this.#state, isBetweenFrames });
    if ("code" in refused) this.#fail(refused);
    else for (const one of refused) this.#open(one);
  }

  /**
   * Without a receipt a token can name only the position. Only the last commit gets one: the client
   * must not take it for the token of a later transaction.
   */
  #givePosition(gate: Gate): void {
    const { attempt, position } = gate;
    const state = this.#state;
    if (attempt !== null || position === null || gate !== state.lastCommit) return;
    const { attempts, principal } = this.#options;
    gate.say(parameterStatus(TOKEN_PARAMETER, attempts.positionToken(principal.owner, position)));
    state.hasOldToken = true;
  }

  /** A CancelRequest. True when there was a held answer or a waiting statement to release. */
  cancel(): boolean {
    const { oldest } = this.#queue;
    if (oldest !== null && !this.#mustHold(oldest)) this.#release(oldest);
    return oldest !== null || this.#afterWait?.cancel() === true || this.#slowdown.cancel();
  }

  #serverGone(): void {
    this.#isServerGone = true;
    if (this.#isClosed || this.#isJudging) return;
    // Held answers are still true and go out when they are durable.
    if (this.#queue.oldest !== null) return;
    this.#queue.clear();
    this.#toClient.flush();
    this.#options.client.end();
  }

  /** The session's node is no longer the primary. */
  failOver(): void {
    this.#fail(FAILED_OVER, "lost");
  }

  /** The session's replica was promoted: nothing more may be sent to it. */
  promoted(): void {
    this.#fail(PROMOTED, "lost");
  }

  /** The epoch has ended. Unanswered commits with receipts first get their verdicts. */
  epochEnded(): void {
    this.#options.server.destroy();
    if (this.#isClosed || this.#isJudging) return;
    const { gates } = this.#queue;
    if (gates.every(({ attempt }) => attempt === null)) {
      this.failOver();
      return;
    }
    this.#isJudging = true;
    this.#judge(gates).catch(() => {
      this.failOver();
    });
  }

  async #judge(gates: readonly Gate[]): Promise<void> {
    const { attempts, principal, primaryEpoch } = this.#options;
    const verdicts = await judgeHeld(gates, { attempts, owner: principal.owner, epoch: primaryEpoch.epoch });
    for (const gate of gates) {
      if (gate.decision === "undecided") break;
      if (gate.decision === "open") continue;
      if (verdicts.get(gate) !== "durable") break;
      this.#traces.answered(gate, false);
      this.#open(gate);
    }
    const left = this.#queue.gates;
    for (const gate of left) if (verdicts.get(gate) === "lost") this.#traces.lost(gate);
    this.#fail(endOf(left, verdicts), "lost");
  }

  /** Ends the session after the client's current transaction. */
  drain(): void {
    this.#isDraining = true;
    if (this.isIdle) this.#fail(SHUTTING_DOWN, "lost");
  }

  /** Ends the session at once. */
  stop(): void {
    this.#fail(SHUTTING_DOWN, "lost");
  }

  /** The client's credential or role is no longer valid. */
  revoke(): void {
    this.#fail(REVOKED);
  }

  /** A client that reads nothing keeps a transaction open at the server, with its locks. */
  endIfUnreadSince(untilMs: number): void {
    if (this.#fullSinceMs !== null && this.#fullSinceMs < untilMs) this.#fail(UNREAD);
  }

  /**
   * A replica's backend that cannot send keeps its snapshot, and PostgreSQL cannot cancel it. The
   * replay stops at the first row version that the snapshot needs, and so does a promotion.
   */
  endIfStoppedSince(untilMs: number): void {
    if (this.#stoppedSinceMs !== null && this.#stoppedSinceMs < untilMs) this.#fail(IN_THE_WAY);
  }

  endIfIdleSince(untilMs: number): void {
    if (this.#lastActiveMs < untilMs && this.isIdle && this.#afterWait?.isRunning !== true) this.#fail(IDLE);
  }

  #fail(report: Report, how: SessionEnd = "cut"): void {
    if (this.#isClosed) return;
    const { client } = this.#options;
    // Never inside a frame: the client would take the error for the rest of the frame.
    const isBetweenFrames = !this.#queue.isEmpty || this.#serverLeg.isBetweenFrames;
    for (const { attempt } of this.#queue.gates) (attempt as WireAttempt | null)?.answered("no");
    this.#queue.clear();
    this.#isClosed = true;
    this.#toClient.flush();
    if (isBetweenFrames) client.end(errorResponse(report));
    else client.destroy();
    const cancel = this.#options.after(LINGER_MS, () => client.destroy());
    client.once("close", cancel);
    this.#end(report.code, how);
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#toServer.flush();
    this.#end(null, "left");
  }

  /** `error`: the SQLSTATE at the session's end; null: the client has left. */
  #end(error: string | null, how: SessionEnd): void {
    this.#ended?.abort();
    this.#afterWait?.stop();
    this.#slowdown.stop();
    for (const attempt of [this.#state.asked, this.#state.receipted, ...this.#positioned])
      (attempt as WireAttempt | null)?.unknown();
    this.#traces.stop();
    this.#reads?.stop(error);
    for (const cancel of this.#timers.values()) cancel();
    this.#timers.clear();
    this.#options.server.off("data", this.#onServer);
    this.#options.onClosed(how);
  }
}
