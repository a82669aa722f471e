// One-shot transactions and the state of an id: reads the request, calls, answers.
import { type FastifyInstance, type onRequestHookHandler } from "fastify";
import { HighwaterError, LIMITS, OwnerText, validate } from "@highwater/protocol";
import { callerOf, requireScope, requireSomeScope } from "@highwater/service";
import { sendHeld } from "../answers/answer-stream.ts";
import { reportAnswer } from "../contents/answered.ts";
import { type Gateway } from "../gateway.ts";
import { acceptRequest, checkId, checkLevel } from "../txn/request.ts";

export function transactionRoutes(app: FastifyInstance, gateway: Gateway): void {
  const { rules } = gateway;

  // Runs before the body is read: a refusal must cost less than it saves.
  const onRequest: onRequestHookHandler = (_request, _reply, done) => {
    done(gateway.transactions.refusal() ?? undefined);
  };
  app.post("/v1/transactions", { onRequest }, async (request, reply) => {
    const accepted = acceptRequest(request.body, rules);
    const { status, kept, ...held } = await gateway.transactions.run(accepted, callerOf(request));
    if (kept !== null) reportAnswer(reply, [kept]);
    return sendHeld(reply.code(status), held, gateway.pace);
  });

  app.get<{ Params: { id: string }; Querystring: Record<string, unknown> }>(
    "/v1/transactions/:id",
    async (request) => {
      const { wait, level, owner } = readQuery(request.query);
      const { principal, signal } = callerOf(request);
      // A caller that asks for another owner's id needs the right to see all owners'.
      if (owner !== undefined && owner !== principal.owner) requireScope(principal, "admin");
      else requireSomeScope(principal, ["read", "write", "admin"]);
      const id = checkId(request.params.id);
      const asked = { owner: owner ?? principal.owner, level: checkLevel(level, rules.levels), waitMs: wait };
      return gateway.inspection.state(id, asked, signal);
    },
  );
}

interface StateQuery {
  /** Milliseconds. */
  readonly wait: number;
  readonly level: string | undefined;
  readonly owner: bigint | undefined;
}

/** `wait` in seconds, fractions allowed. */
function readQuery(query: Readonly<Record<string, unknown>>): StateQuery {
  const { wait, level, owner, ...unknown } = query;
  const waitMs = wait === undefined ? 0 : parseSeconds(wait);
  const faults = [
    ...Object.keys(unknown).map((key) => `?${key}: is not a known parameter`),
    ...(waitMs === undefined ? [`?wait: must be seconds from 0 to ${String(LIMITS.waitMs / 1_000)}`] : []),
    ...(level === undefined || typeof level === "string" ? [] : ["?level: must be given once"]),
    ...(owner === undefined || validate(OwnerText, owner).ok
      ? []
      : ["?owner: must be an owner's tag, a decimal number of at most 128 bits"]),
  ];
  if (faults.length > 0 || waitMs === undefined)
    throw new HighwaterError("invalid_request", { detail: faults.join("; "), fields: faults });
  return {
    wait: waitMs,
    level: level as string | undefined,
    owner: owner === undefined ? undefined : BigInt(owner as string),
  };
}

function parseSeconds(text: unknown): number | undefined {
  if (typeof text !== "string" || !/^[0-9]{1,5}(\.[0-9]{1,6})?$/.test(text)) return undefined;
  const ms = Number(text) * 1_000;
  return ms <= LIMITS.waitMs ? ms : undefined;
}
