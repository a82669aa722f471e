// One database session for transactions: a connection, its prepared statements, and how to cancel
// what it runs.
import { type PoolClient } from "pg";
import { type Clock } from "@highwater/runtime";
import { type ReceiptKey } from "../port.ts";
import { destroy } from "./channel.ts";
import { OutOfStep, Pipeline, type PipelineLimits, type PipelineOutcome, type Step } from "./pipeline.ts";
import { PreparedStatements } from "./prepared.ts";
import { DISCARD_ALL, isClean, RESET } from "./reset.ts";

export interface Session {
  readonly client: PoolClient;
  readonly prepared: PreparedStatements;
  readonly segmentBytes: bigint;
  /** Names the session among all that the server has ever had. */
  readonly holder: string;
  /** Time at which its role was last vetted. */
  vettedMs: number;
  /**
   * The principal that uses it, or used it last; null for a new session. State that a request
   * leaves behind never reaches another principal.
   */
  principal: string | null;
  /**
   * Whether another principal has used it: the next write then begins with the reset between two
   * principals.
   */
  mustDiscard: boolean;
  /**
   * Whether the server was asked to cancel something here. That request may still arrive, so no
   * other transaction may use the session.
   */
  wasCancelled: boolean;
  /** Whether the connection has ended. */
  isLost: boolean;
}

/** A session that no principal has used. */
export function newSession(
  client: PoolClient,
  known: Pick<Session, "segmentBytes" | "holder" | "vettedMs">,
): Session {
  const session: Session = {
    client,
    ...known,
    prepared: new PreparedStatements(),
    principal: null,
    mustDiscard: false,
    wasCancelled: false,
    isLost: false,
  };
  client.on("end", () => {
    session.isLost = true;
  });
  return session;
}

/** Asks the server, over another connection, to cancel a backend's query, or to end the backend. */
export interface Canceller {
  readonly clock: Clock;
  cancelBackend(processId: number): Promise<unknown>;
  terminateBackend(processId: number): Promise<unknown>;
  /** Notes that the session is silent and may still hold the id. */
  giveUp(key: ReceiptKey, holder: string): void;
}

/**
 * How soon a cancelled query must answer, before the backend is ended and the connection is cut.
 */
const CANCEL_PATIENCE_MS = 2_000;
const CANCEL_AGAIN_MS = 50;
const RESET_PATIENCE_MS = 2_000;

export interface PipelineRun extends PipelineLimits {
  readonly steps: readonly Step[];
  readonly signal: AbortSignal | undefined;
  /**
   * Whether to cancel the rest as soon as rows are left out because of their bytes. That undoes
   * nothing.
   */
  readonly cancelWhenCut?: boolean;
}

/** Assigns the session to the principal. */
export function enter(session: Session, principal: string): void {
  session.mustDiscard ||= session.principal !== null && session.principal !== principal;
  session.principal = principal;
}

/**
 * Sends the steps in one write. Rejects when the connection ends before the answer is complete, and
 * with OutOfStep when the session is not in the state that the service's own statements put it
 * into. The session is lost then.
 */
export function runPipeline(
  session: Session,
  canceller: Canceller,
  run: PipelineRun,
): Promise<PipelineOutcome> {
  const opening = openingOf(session);
  const pipeline = new Pipeline(run.steps, session.prepared, run);
  send(session, [...opening, pipeline]);
  return inStep(session, opening, whileCancellable(session, canceller, pipeline, run));
}

/**
 * Sends several transactions in one write, and after them the reset of the session. Each is
 * cancelled only during its turn.
 */
export function runTogether(
  session: Session,
  canceller: Canceller,
  runs: readonly PipelineRun[],
): { readonly outcomes: readonly Promise<PipelineOutcome>[]; readonly isReset: Promise<boolean> } {
  const reset = Pipeline.script(RESET, session.prepared);
  const { outcomes, last } = sendRuns(session, canceller, runs, [reset]);
  return { outcomes, isReset: resetOf(session, canceller, reset, last) };
}

/** As `runTogether`, without the reset: what runs here leaves nothing in the session. */
export function runInOneWrite(
  session: Session,
  canceller: Canceller,
  runs: readonly PipelineRun[],
): readonly Promise<PipelineOutcome>[] {
  return sendRuns(session, canceller, runs, []).outcomes;
}

/** `last` resolves after the last answer, however it ends. */
function sendRuns(
  session: Session,
  canceller: Canceller,
  runs: readonly PipelineRun[],
  after: readonly Pipeline[],
): { readonly outcomes: readonly Promise<PipelineOutcome>[]; readonly last: Promise<unknown> | null } {
  const opening = openingOf(session);
  const pipelines = runs.map((run) => new Pipeline(run.steps, session.prepared, run));
  send(session, [...opening, ...pipelines, ...after]);
  let last: Promise<unknown> | null = null;
  const outcomes = pipelines.map((pipeline, at) => {
    const run = runs[at];
    const turn = last;
    last = pipeline.done.catch(() => undefined);
    const cancellable = (): Promise<PipelineOutcome> =>
      run === undefined ? pipeline.done : whileCancellable(session, canceller, pipeline, run);
    return inStep(session, opening, turn === null ? cancellable() : turn.then(cancellable));
  });
  return { outcomes, last };
}

/** Removes what a request has left in the session. False: the session must not be used any more. */
export function reset(session: Session, timer: Pick<Canceller, "clock">): Promise<boolean> {
  return runReset(session, timer, RESET);
}

function runReset(session: Session, timer: Pick<Canceller, "clock">, text: string): Promise<boolean> {
  const pipeline = Pipeline.script(text, session.prepared);
  session.client.query(pipeline);
  return resetOf(session, timer, pipeline, null);
}

/**
 * Limits the wait for a host that may be gone. When the connection is cut, the server undoes what
 * is open.
 */
async function resetOf(
  { client }: Session,
  { clock }: Pick<Canceller, "clock">,
  { done }: Pipeline,
  before: Promise<unknown> | null,
): Promise<boolean> {
  const isDone = done.then(isClean, () => false);
  await before;
  const stopCut = clock.after(RESET_PATIENCE_MS, () => {
    destroy(client);
  });
  return isDone.finally(stopCut);
}

function openingOf(session: Session): Pipeline[] {
  if (!session.mustDiscard) return [];
  session.mustDiscard = false;
  session.prepared.forget();
  return [Pipeline.script(DISCARD_ALL, session.prepared)];
}

function send(session: Session, pipelines: readonly Pipeline[]): void {
  Pipeline.join(pipelines);
  for (const pipeline of pipelines) session.client.query(pipeline);
}

async function inStep(
  session: Session,
  opening: readonly Pipeline[],
  running: Promise<PipelineOutcome>,
): Promise<PipelineOutcome> {
  try {
    // It cannot fail in a session that was reset. If it does, the results after it are invalid.
    for (const { done } of opening)
      if ((await done).error !== null) throw new OutOfStep("the session could not be reset");
    return await running;
  } catch (cause) {
    running.catch(() => undefined);
    if (cause instanceof OutOfStep) {
      session.isLost = true;
      destroy(session.client);
    }
    throw cause;
  }
}

async function whileCancellable(
  session: Session,
  canceller: Canceller,
  pipeline: Pipeline,
  { signal, cancelWhenCut = false }: PipelineRun,
): Promise<PipelineOutcome> {
  if (signal === undefined && !cancelWhenCut) return pipeline.done;
  const stops: (() => void)[] = [];
  const cancel = (): void => {
    stops.push(askToCancel(session, canceller), cutIfPatienceEnds(session, canceller));
  };
  signal?.addEventListener("abort", cancel, { once: true });
  // There is no hurry, because the rows that still arrive are dropped. The connection is not cut,
  // because other transactions may share it.
  if (cancelWhenCut)
    pipeline.whenCut(() => {
      stops.push(askToCancel(session, canceller));
    });
  try {
    if (signal?.aborted === true) cancel();
    return await pipeline.done;
  } finally {
    signal?.removeEventListener("abort", cancel);
    for (const stop of stops) stop();
  }
}

/**
 * Asks again until it is stopped: a request that reaches the backend between two statements, or
 * before the first, has no effect.
 */
function askToCancel(session: Session, canceller: Canceller): () => void {
  const { clock } = canceller;
  const { processID } = session.client as unknown as { processID: number };
  let isStopped = false;
  let stopWaiting = (): void => undefined;
  session.wasCancelled = true;
  const ask = async (): Promise<void> => {
    await canceller.cancelBackend(processID).catch(() => undefined);
    if (!isStopped) stopWaiting = clock.after(CANCEL_AGAIN_MS, () => void ask());
  };
  void ask();
  return () => {
    isStopped = true;
    stopWaiting();
  };
}

/**
 * Ends the backend after a while: a function can catch every cancellation, but not the end of its
 * backend.
 */
function cutIfPatienceEnds({ client }: Session, canceller: Canceller): () => void {
  const { processID } = client as unknown as { processID: number };
  return canceller.clock.after(CANCEL_PATIENCE_MS, () => {
    canceller.terminateBackend(processID).catch(() => undefined);
    destroy(client);
  });
}

/**
 * Rolls back the open transaction of the session, and resets it. False: that failed, and the
 * session must not be used any more.
 */
export function rollBack(session: Session, timer: Pick<Canceller, "clock">): Promise<boolean> {
  return runReset(session, timer, `ROLLBACK; ${RESET}`);
}
