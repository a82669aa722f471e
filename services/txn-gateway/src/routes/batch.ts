// Several one-shot transactions in one request. Each runs as if it came alone, and its line of the
// answer is sent as soon as it has ended, so that a slow one does not delay the others.
import { type FastifyInstance } from "fastify";
import { HighwaterError, type Problem } from "@highwater/protocol";
import { type Caller, callerOf, endRequest, type Log, noteFailure, problemOf } from "@highwater/service";
import { AnswerStream } from "../answers/answer-stream.ts";
import { type ResultHold } from "../answers/result-memory.ts";
import { reportAnswer } from "../contents/answered.ts";
import { type Kept } from "../contents/keeper.ts";
import { type Gateway } from "../gateway.ts";
import { acceptBatch, acceptRequest } from "../txn/request.ts";

const PATH = "/v1/transactions/batch";
const NDJSON = "application/x-ndjson";

export function batchRoutes(app: FastifyInstance, gateway: Gateway, log: Pick<Log, "error">): void {
  app.post(
    PATH,
    {
      onRequest: (_request, _reply, done) => {
        done(gateway.transactions.refusal() ?? undefined);
      },
    },
    (request, reply) => {
      const { transactions, traceparents = [] } = acceptBatch(request.body);
      const sender = callerOf(request);
      const lines = new AnswerStream(gateway.pace);
      let left = transactions.length;
      const inAnswer: Kept[] = [];
      for (const [index, body] of transactions.entries()) {
        const caller = inOwnTrace(sender, traceparents[index]);
        // The request itself counts as the first.
        const count = index === 0 ? () => () => undefined : () => gateway.callers.also(caller);
        runOne(gateway, body, { caller, count })
          .catch((cause: unknown) => refusalOf(cause, log, caller))
          .then(({ hold, kept, ...answer }) => {
            if (kept !== null) inAnswer.push(kept);
            lines.add({ index, ...answer }, hold, "\n");
            if (caller !== sender && caller.trace !== undefined)
              endRequest(caller.trace, { method: "POST", route: PATH, status: answer.status });
            if (--left > 0) return;
            reportAnswer(reply, inAnswer);
            lines.finish();
          })
          .catch((cause: unknown) => {
            lines.readable.destroy(cause as Error);
          });
      }
      // A proxy that collects lines would delay all of them until the last.
      void reply.header("x-accel-buffering", "no");
      return reply.header("content-type", NDJSON).send(lines.readable);
    },
  );
}

/** The caller of a transaction that has a trace of its own, as if it had come alone. */
function inOwnTrace(sender: Caller, traceparent = ""): Caller {
  const { trace } = sender;
  if (trace === undefined || traceparent === "") return sender;
  return { ...sender, trace: trace.tracer.request(traceparent) };
}

interface BatchOutcome {
  readonly status: number;
  readonly body: unknown;
  readonly hold: ResultHold | null;
  readonly kept: Kept | null;
}

async function runOne(
  gateway: Gateway,
  body: unknown,
  { caller, count }: { readonly caller: Caller; readonly count: () => () => void },
): Promise<BatchOutcome> {
  const leave = count();
  try {
    const refusal = gateway.transactions.refusal();
    if (refusal !== null) throw refusal;
    return await gateway.transactions.run(acceptRequest(body, gateway.rules), caller);
  } finally {
    leave();
  }
}

/** Returns the refusal of one of several that share a request. */
export function refusalOf(
  cause: unknown,
  log: Pick<Log, "error">,
  { trace, route = PATH }: Pick<Caller, "trace"> & { readonly route?: string },
): { readonly status: number; readonly body: Problem; readonly hold: null; readonly kept: null } {
  if (cause instanceof HighwaterError) noteFailure(trace, cause);
  if (!(cause instanceof HighwaterError) || cause.code === "internal")
    log.error("request_failed", { method: "POST", route, cause });
  const problem = problemOf(cause instanceof HighwaterError ? cause : new HighwaterError("internal"));
  return { status: problem.status, body: problem, hold: null, kept: null };
}
