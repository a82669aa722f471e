// Tickets of transactions that applications commit on connections of their own. Many share a
// request, and each is judged on its own.
import { type FastifyInstance, type FastifyRequest } from "fastify";
import { type Caller, callerOf, type Log } from "@highwater/service";
import { type Gateway } from "../gateway.ts";
import { acceptEnd, acceptEnds, acceptTicket, acceptTickets } from "../txn/request.ts";
import { refusalOf } from "./batch.ts";

const ISSUE = "/v1/tickets";
const END = "/v1/tickets/ends";

export function ticketRoutes(app: FastifyInstance, gateway: Gateway, log: Pick<Log, "error">): void {
  const { tickets, rules } = gateway;

  const answerEach = async <Body>(
    request: FastifyRequest,
    bodies: readonly unknown[],
    work: (body: unknown, caller: Caller) => Promise<Body>,
  ): Promise<{ answers: { status: number; body: unknown }[] }> => {
    const caller = callerOf(request);
    const answerOne = async (body: unknown, index: number): Promise<{ status: number; body: unknown }> => {
      // The request itself counts as the first.
      let leave = (): void => undefined;
      try {
        if (index > 0) leave = gateway.callers.also(caller);
        return { status: 200, body: await work(body, caller) };
      } catch (cause) {
        const { status, body: problem } = refusalOf(cause, log, { ...caller, route: request.url });
        return { status, body: problem };
      } finally {
        leave();
      }
    };
    return { answers: await Promise.all(bodies.map(answerOne)) };
  };

  app.post(ISSUE, (request) =>
    answerEach(request, acceptTickets(request.body).transactions, async (body, caller) =>
      tickets.issue(acceptTicket(body, rules), caller),
    ),
  );

  app.post(END, (request) =>
    answerEach(request, acceptEnds(request.body).tickets, async (body, caller) =>
      tickets.end(acceptEnd(body, rules), caller),
    ),
  );
}
