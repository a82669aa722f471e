// Marks, their stream, and verdicts: what clients that hold tokens ask a tracker.
import { type FastifyInstance } from "fastify";
import { HighwaterError, type MarksResponse, validate, VerdictsRequest } from "@highwater/protocol";
import { callerOf, requireScope } from "@highwater/service";
import { type TrackerLoop } from "../shell/loop.ts";
import { currentMarks, type MarkStream } from "../shell/stream.ts";
import { type VerdictDesk } from "../shell/verdict-desk.ts";

export interface DurabilityParts {
  readonly loop: TrackerLoop;
  readonly desk: VerdictDesk;
}

export function durabilityRoutes(scope: FastifyInstance, { loop, desk }: DurabilityParts): void {
  scope.get("/v1/durability/marks", (request): MarksResponse => {
    requireScope(callerOf(request).principal, "read");
    return {
      marks: currentMarks(loop.state),
      levels: loop.state.config.levels.map(({ name }) => name),
      epochs: [...loop.state.ancestry],
    };
  });

  scope.post("/v1/durability/verdicts", (request) => {
    const caller = callerOf(request);
    requireScope(caller.principal, "read");
    const checked = validate(VerdictsRequest, request.body);
    if (!checked.ok)
      throw new HighwaterError("invalid_request", {
        detail: checked.faults.join("; "),
        fields: checked.faults,
      });
    return desk.answer(checked.value, caller);
  });
}

export interface StreamParts {
  readonly loop: TrackerLoop;
  readonly stream: MarkStream;
  readonly maxStreams: number;
}

export function streamRoutes(scope: FastifyInstance, { loop, stream, maxStreams }: StreamParts): void {
  // Without HEAD: a stream has no end that it could wait for.
  scope.get("/v1/durability/stream", { exposeHeadRoute: false }, (request, reply) => {
    requireScope(callerOf(request).principal, "read");
    if (stream.size >= maxStreams)
      throw new HighwaterError("overloaded", {
        detail: `The limit maxStreams is ${String(maxStreams)}: so many streams are open.`,
        limit: { name: "maxStreams", value: maxStreams },
        retryAfterMs: 5_000,
      });
    reply.hijack();
    stream.add(reply.raw, loop.state);
  });
}
