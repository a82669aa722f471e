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

/** Asks the server, over another connection, to cancel what the backend is running. */
export interface Canceller {
  readonly clock: Clock;
  cancelBackend(processId: number): Promise<unknown>;
}

/** What was cancelled answers so soon; otherwise the connection is cut. */
const CANCEL_PATIENCE_MS = 2_000;

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
  const { steps, maxBytes, fieldDetails, signal } = run;
  const pipeline = new Pipeline(steps, session.prepared, { maxBytes, fieldDetails });
  if (signal === undefined) {
    session.client.query(pipeline);
    return pipeline.done;
  }
  let cancelCut = (): void => undefined;
  const cancel = (): void => {
    session.wasCancelled = true;
    cancelCut = canceller.clock.after(CANCEL_PATIENCE_MS, () => {
      destroy(session.client);
    });
    const { processID } = session.client as unknown as { processID: number };
    canceller.cancelBackend(processID).catch(() => undefined);
  };
  signal.addEventListener("abort", cancel, { once: true });
  try {
    session.client.query(pipeline);
    if (signal.aborted) cancel();
    return await pipeline.done;
  } finally {
    signal.removeEventListener("abort", cancel);
    cancelCut();
  }
}
