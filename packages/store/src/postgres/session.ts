// One database session as transactions use it: a connection, its prepared statements, and how to cancel what it runs.
import { type PoolClient } from "pg";
import { type Clock } from "../clock.ts";
import { destroy } from "./channel.ts";
import { Pipeline, type PipelineOutcome, type Step } from "./pipeline.ts";
import { type PreparedStatements } from "./prepared.ts";

export interface Session {
  readonly client: PoolClient;
  readonly prepared: PreparedStatements;
  readonly segmentBytes: bigint;
  /** The server was asked to cancel something here: the request may yet arrive, so nobody else may use the session. */
  wasCancelled: boolean;
  /** The connection has ended. */
  isLost: boolean;
}

/** Asks the server, over another connection, to cancel what the backend is running, or to end it altogether. */
export interface Canceller {
  readonly clock: Clock;
  cancelBackend(processId: number): Promise<unknown>;
  terminateBackend(processId: number): Promise<unknown>;
}

/** What was cancelled answers so soon; otherwise the backend is ended and the connection is cut. */
const CANCEL_PATIENCE_MS = 2_000;
const CANCEL_AGAIN_MS = 50;
const ROLLBACK_PATIENCE_MS = 2_000;

export interface PipelineRun {
  readonly steps: readonly Step[];
  readonly maxBytes: number;
  readonly fieldDetails: boolean;
  readonly signal: AbortSignal | undefined;
}

/** Sends the steps in one write. Rejects when the connection ends before the answer is complete. */
export async function runPipeline(
  session: Session,
  canceller: Canceller,
  run: PipelineRun,
): Promise<PipelineOutcome> {
  const pipeline = pipelineOf(session, run);
  session.client.query(pipeline);
  return run.signal === undefined
    ? pipeline.done
    : whileCancellable(session, canceller, pipeline, run.signal);
}

/** Sends several transactions behind each other in one write. Each is cancelled only while it is its turn. */
export function runTogether(
  session: Session,
  canceller: Canceller,
  runs: readonly PipelineRun[],
): readonly Promise<PipelineOutcome>[] {
  const pipelines = runs.map((run) => pipelineOf(session, run));
  Pipeline.join(pipelines);
  for (const pipeline of pipelines) session.client.query(pipeline);
  let before: Promise<unknown> | null = null;
  return pipelines.map((pipeline, at) => {
    const signal = runs[at]?.signal;
    const turn = before;
    before = pipeline.done.catch(() => undefined);
    if (signal === undefined) return pipeline.done;
    if (turn === null) return whileCancellable(session, canceller, pipeline, signal);
    return turn.then(() => whileCancellable(session, canceller, pipeline, signal));
  });
}

function pipelineOf(session: Session, { steps, maxBytes, fieldDetails }: PipelineRun): Pipeline {
  return new Pipeline(steps, session.prepared, { maxBytes, fieldDetails });
}

async function whileCancellable(
  session: Session,
  canceller: Canceller,
  pipeline: Pipeline,
  signal: AbortSignal,
): Promise<PipelineOutcome> {
  let stopCancelling = (): void => undefined;
  const cancel = (): void => {
    session.wasCancelled = true;
    stopCancelling = insistOnCancel(session, canceller);
  };
  signal.addEventListener("abort", cancel, { once: true });
  try {
    if (signal.aborted) cancel();
    return await pipeline.done;
  } finally {
    signal.removeEventListener("abort", cancel);
    stopCancelling();
  }
}

/**
 * Asks until it is stopped: a request that reaches the backend between two statements, or before the first, is void.
 * A function can swallow every cancellation of what it runs, but not the end of its backend.
 */
function insistOnCancel({ client }: Session, canceller: Canceller): () => void {
  const { clock } = canceller;
  const { processID } = client as unknown as { processID: number };
  let isStopped = false;
  let stopWaiting = (): void => undefined;
  const ask = async (): Promise<void> => {
    await canceller.cancelBackend(processID).catch(() => undefined);
    if (!isStopped) stopWaiting = clock.after(CANCEL_AGAIN_MS, () => void ask());
  };
  void ask();
  const stopCut = clock.after(CANCEL_PATIENCE_MS, () => {
    canceller.terminateBackend(processID).catch(() => undefined);
    destroy(client);
  });
  return () => {
    isStopped = true;
    stopWaiting();
    stopCut();
  };
}

/** Ends what is open in the session. False when that failed: nobody may use the session any more. */
export async function rollBack({ client }: Session, { clock }: Pick<Canceller, "clock">): Promise<boolean> {
  // Cut, the server undoes it all the same; and nobody need wait for a host that is gone.
  const stopCut = clock.after(ROLLBACK_PATIENCE_MS, () => {
    destroy(client);
  });
  try {
    await client.query("ROLLBACK");
    return true;
  } catch {
    return false;
  } finally {
    stopCut();
  }
}
