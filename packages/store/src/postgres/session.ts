// One database session as transactions use it: a connection, its prepared statements, and how to cancel what it runs.
import { type PoolClient } from "pg";
import { type TxnId } from "@highwater/protocol";
import { type Clock } from "../clock.ts";
import { type ResultLimits } from "../port.ts";
import { destroy } from "./channel.ts";
import { Pipeline, type PipelineOutcome, type Step } from "./pipeline.ts";
import { type PreparedStatements } from "./prepared.ts";

export interface Session {
  readonly client: PoolClient;
  readonly prepared: PreparedStatements;
  readonly segmentBytes: bigint;
  /** Names it among all sessions that the server has ever had. */
  readonly holder: string;
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
  /** Nothing is heard of the session any more; it may hold the id yet. */
  giveUp(id: TxnId, holder: string): void;
}

/** What was cancelled answers so soon; otherwise the backend is ended and the connection is cut. */
const CANCEL_PATIENCE_MS = 2_000;
const CANCEL_AGAIN_MS = 50;
const ROLLBACK_PATIENCE_MS = 2_000;

export interface PipelineRun extends Pick<ResultLimits, "maxBytes" | "fieldDetails" | "meter"> {
  readonly steps: readonly Step[];
  readonly signal: AbortSignal | undefined;
  /** Nothing is undone by that: as soon as rows are left out because of their bytes, the rest is not run. */
  readonly cancelWhenCut?: boolean;
}

/** Sends the steps in one write. Rejects when the connection ends before the answer is complete. */
export async function runPipeline(
  session: Session,
  canceller: Canceller,
  run: PipelineRun,
): Promise<PipelineOutcome> {
  const pipeline = pipelineOf(session, run);
  session.client.query(pipeline);
  return whileCancellable(session, canceller, pipeline, run);
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
    const run = runs[at];
    const turn = before;
    before = pipeline.done.catch(() => undefined);
    if (run === undefined) return pipeline.done;
    if (turn === null) return whileCancellable(session, canceller, pipeline, run);
    return turn.then(() => whileCancellable(session, canceller, pipeline, run));
  });
}

function pipelineOf(session: Session, run: PipelineRun): Pipeline {
  return new Pipeline(run.steps, session.prepared, run);
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
  // What the server is sending is dropped as it comes, so there is no haste, and the connection may be others' too.
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

/** Asks until it is stopped: a request that reaches the backend between two statements, or before the first, is void. */
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

/** A function can swallow every cancellation of what it runs, but not the end of its backend. */
function cutIfPatienceEnds({ client }: Session, canceller: Canceller): () => void {
  const { processID } = client as unknown as { processID: number };
  return canceller.clock.after(CANCEL_PATIENCE_MS, () => {
    canceller.terminateBackend(processID).catch(() => undefined);
    destroy(client);
  });
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
