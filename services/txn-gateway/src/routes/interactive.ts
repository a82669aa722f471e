// The calls of interactive transactions: begin, statements, commit, rollback.
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { HighwaterError } from "@highwater/protocol";
import { callerOf } from "@highwater/service";
import { reportAnswer } from "../contents/answered.ts";
import { type Gateway } from "../gateway.ts";
import { sendHeld } from "../answers/answer-stream.ts";
import { type HeldCallResult } from "../interactive/open.ts";
import { type Pinned, SESSION_HEADER, wrongGateway } from "../interactive/session-header.ts";
import { acceptBegin, acceptCommit, acceptRollback, acceptStatements, checkId } from "../txn/request.ts";

type Call = FastifyRequest<{ Params: { id: string } }>;

export function interactiveRoutes(app: FastifyInstance, gateway: Gateway): void {
  const { interactive, rules } = gateway;

  /**
   * The transaction that the address and the header name together, and whether it is on this
   * gateway.
   */
  const named = (
    request: Call,
    reply: FastifyReply,
    outcome?: "unknown",
  ): { pin: Pinned; isHere: boolean } => {
    const id = checkId(request.params.id);
    const header = request.headers[SESSION_HEADER];
    if (typeof header !== "string")
      throw new HighwaterError("invalid_request", {
        detail: `The header ${SESSION_HEADER} is missing; send the value that begin returned.`,
        transactionId: id,
      });
    const read = interactive.headers.read(header, callerOf(request).principal);
    if (read?.id !== id) throw new HighwaterError("transaction_not_open", { transactionId: id, outcome });
    void reply.header(SESSION_HEADER, header);
    return { pin: read, isHere: interactive.headers.isOurs(read) };
  };
  /** `unknown`: the call may follow a commit. */
  const pinned = (request: Call, reply: FastifyReply, outcome?: "unknown"): Pinned => {
    const { pin, isHere } = named(request, reply, outcome);
    if (!isHere) throw wrongGateway(pin, outcome);
    return pin;
  };
  const send = (reply: FastifyReply, { status, kept, ...held }: HeldCallResult): FastifyReply => {
    if (kept != null) reportAnswer(reply, [kept]);
    return sendHeld(reply.code(status), held, gateway.pace);
  };

  app.post("/v1/transactions/begin", async (request, reply) => {
    const begin = acceptBegin(request.body);
    const caller = callerOf(request);
    const answer = await interactive.begin(begin, caller);
    if (answer.body.state === "active")
      void reply.header(SESSION_HEADER, interactive.headerOf(begin.id, caller.principal));
    return send(reply, answer);
  });

  app.post("/v1/transactions/:id/statements", async (request: Call, reply) => {
    const pin = pinned(request, reply);
    return send(reply, await interactive.statements(pin, acceptStatements(request.body), callerOf(request)));
  });

  app.post("/v1/transactions/:id/commit", async (request: Call, reply) => {
    const pin = pinned(request, reply, "unknown");
    return send(reply, await interactive.commit(pin, acceptCommit(request.body, rules), callerOf(request)));
  });

  app.post("/v1/transactions/:id/rollback", async (request: Call, reply) => {
    const { pin, isHere } = named(request, reply);
    const rollback = acceptRollback(request.body);
    const caller = callerOf(request);
    // Its gateway may be gone while a COMMIT of it is under way. The rollback settles the id, so
    // the client need not know.
    return send(
      reply,
      await (isHere ? interactive.rollback(pin, rollback, caller) : interactive.settle(pin, caller)),
    );
  });
}
