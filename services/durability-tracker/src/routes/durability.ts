// Marks, their stream, and verdicts for clients that hold tokens.
import { type FastifyInstance } from "fastify";
import {
  type ExposureReport,
  HighwaterError,
  type MarksResponse,
  validate,
  VerdictsRequest,
  ofOwner,
} from "@highwater/protocol";
import { callerOf, NOBODY, type Principal, requireScope, responseOf } from "@highwater/service";
import { levelNames } from "../core/index.ts";
import { type TrackerLoop } from "../shell/loop.ts";
import { currentMarks, exposureReport, type MarkStream } from "../shell/stream.ts";
import { type VerdictService } from "../shell/verdict-service.ts";

export interface DurabilityContext {
  readonly loop: TrackerLoop;
  readonly verdicts: VerdictService;
}

export function durabilityRoutes(scope: FastifyInstance, { loop, verdicts }: DurabilityContext): void {
  scope.get("/v1/durability/marks", (request): MarksResponse => {
    requireScope(callerOf(request).principal, "read");
    return {
      marks: currentMarks(loop.state),
      levels: levelNames(loop.state),
      epochs: [...loop.state.topology.ancestry],
      ...(loop.sight.isBlind ? { blind: true as const } : {}),
    };
  });

  scope.get("/v1/durability/exposure", (request): ExposureReport => {
    const { principal } = callerOf(request);
    requireScope(principal, "read");
    const report = exposureReport(loop.state);
    if (report === null)
      throw new HighwaterError("primary_unavailable", {
        detail: "The tracker knows no epoch yet; retry.",
        retryAfterMs: 1_000,
      });
    if (principal.isEveryOwner === true) return report;
    return ofOwner(report, principal.owner.toString());
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
    return verdicts.answer(checked.value, caller);
  });
}

export interface StreamContext {
  readonly loop: TrackerLoop;
  readonly stream: MarkStream;
  readonly limits: StreamLimits;
}

/** Of streams of marks, those of gateways aside. */
interface StreamLimits {
  readonly maxStreams: number;
  readonly maxStreamsPerKey: number;
}

export function streamRoutes(scope: FastifyInstance, { loop, stream, limits }: StreamContext): void {
  // Without HEAD: a stream has no end that it could wait for.
  scope.get("/v1/durability/stream", { exposeHeadRoute: false }, (request, reply) => {
    const { principal } = callerOf(request);
    requireScope(principal, "read");
    // Without its stream a gateway serves no client.
    if (principal.isService !== true) refuseStream(stream, principal, limits);
    reply.hijack();
    const { exposure } = request.query as { exposure?: string };
    stream.add(responseOf(reply), loop.state, {
      id: principal.id,
      wantsExposure: exposure === "true",
      seesOwners: principal.isEveryOwner === true,
    });
  });
}

function refuseStream(stream: MarkStream, principal: Principal, limits: StreamLimits): void {
  const { maxStreams, maxStreamsPerKey } = limits;
  if (stream.size >= maxStreams)
    throw new HighwaterError("overloaded", {
      detail: `All ${String(maxStreams)} streams are in use (maxStreams); retry later.`,
      limit: { name: "maxStreams", value: maxStreams },
      retryAfterMs: 5_000,
    });
  // Without authentication all are one.
  if (principal.owner !== NOBODY && stream.countOf(principal.id) >= maxStreamsPerKey)
    throw new HighwaterError("concurrency_limited", {
      detail: `${principal.id} has ${String(maxStreamsPerKey)} streams open, its limit (maxStreamsPerKey); close one first.`,
      limit: { name: "maxStreamsPerKey", value: maxStreamsPerKey },
      retryAfterMs: 5_000,
    });
}
