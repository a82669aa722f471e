// Takes gateways' announcements, and acknowledges them when they and the contents that are kept are
// on local disk. Also answers gateways that ask about ids without tokens, and takes the reports of
// their limits.
import { type FastifyInstance, type FastifyRequest } from "fastify";
import {
  type Announcement,
  AnnouncementBatch,
  type EpochId,
  ExposureLimitsReport,
  HighwaterError,
  LossesRequest,
  type LossesResponse,
  type Offset,
  type SealedLost,
  SealedLostRequest,
  type Static,
  type TSchema,
  type TxnId,
  validate,
} from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { callerOf, NOBODY } from "@highwater/service";
import { type Contents } from "../contents/contents.ts";
import { type ContentsMessage } from "../contents/entries.ts";
import { type AnnouncedItem, judgeHeld, levelNames } from "../core/index.ts";
import { type GatewayLimits } from "../shell/gateway-limits.ts";
import { type LedgerFile } from "../shell/ledger-file.ts";
import { type TrackerLoop } from "../shell/loop.ts";

const UNKNOWN_REGION = "unknown";

export interface AnnouncementContext {
  readonly loop: TrackerLoop;
  readonly clock: Clock;
  readonly ledger: LedgerFile;
  readonly limits: GatewayLimits;
  readonly contents: Contents;
  /**
   * A caller that could announce could make the tracker watch transactions that never existed, or
   * forget existing ones.
   */
  readonly onlyServices: boolean;
}

export function announcementRoutes(
  scope: FastifyInstance,
  { loop, clock, ledger, limits, contents, onlyServices }: AnnouncementContext,
): void {
  const bodyOf = <S extends TSchema>(request: FastifyRequest, schema: S): Static<S> => {
    if (onlyServices && callerOf(request).principal.isService !== true)
      throw new HighwaterError("forbidden", {
        detail: "Only gateways may call this, with HIGHWATER_INTERNAL_SECRET.",
      });
    const checked = validate(schema, request.body);
    if (checked.ok) return checked.value;
    throw new HighwaterError("invalid_request", {
      detail: checked.faults.join("; "),
      fields: checked.faults,
    });
  };

  scope.post("/internal/announcements", async (request, reply) => {
    const batch = bodyOf(request, AnnouncementBatch);
    const { gateway, region = UNKNOWN_REGION, announcements, parents = {}, waitsForMs } = batch;
    if (waitsForMs !== undefined) void loop.whileInterested(() => sleep(clock, waitsForMs));
    if (announcements.length === 0) return reply.code(204).send();
    loop.dispatch({
      kind: "announced",
      nowMs: clock.monotonicMs(),
      from: { gateway, region },
      items: announcements.flatMap((item) => announcedItem(item) ?? []),
      parents: epochsOf(parents),
    });
    const messages = announcements.filter((item) => isContentsMessage(item));
    const [answer] = await Promise.all([contents.take(messages), ledger.flush()]);
    return answer === null ? reply.code(204).send() : reply.send(answer);
  });

  scope.post("/internal/exposure-limits", (request, reply) => {
    limits.take(bodyOf(request, ExposureLimitsReport));
    return reply.code(204).send();
  });

  scope.post("/internal/lost", (request): Promise<SealedLost> => {
    const { after, epoch } = bodyOf(request, SealedLostRequest);
    // It names the losses of all owners, so keys never open it.
    if (callerOf(request).principal.isEveryOwner !== true)
      throw new HighwaterError("forbidden", {
        detail: "Only gateways may call this, with HIGHWATER_INTERNAL_SECRET.",
      });
    return contents.listSealed(after, epoch?.toLowerCase());
  });

  scope.post("/internal/losses", (request): LossesResponse => {
    const { of, level } = bodyOf(request, LossesRequest);
    const names = levelNames(loop.state);
    if (!names.includes(level))
      throw new HighwaterError("unknown_level", {
        detail: `Level ${level} is not configured; use one of ${names.join(", ")}.`,
      });
    const ids = of.map(({ id, owner }) => ({
      id: id.toLowerCase() as TxnId,
      owner: owner === undefined ? NOBODY : BigInt(owner),
    }));
    return {
      losses: judgeHeld(loop.state, ids, level).map(
        (held) =>
          held && {
            attempt: held.attempt,
            verdict: held.judgement.verdict,
            position: { epoch: held.origin.epoch, offset: held.origin.offset.toString() },
          },
      ),
      ...(loop.sight.isBlind ? { blind: true as const } : {}),
    };
  });
}

function epochsOf(parents: Readonly<Record<string, string>>): Record<EpochId, EpochId> {
  const pairs = Object.entries(parents).map(([epoch, parent]) => [epoch.toLowerCase(), parent.toLowerCase()]);
  return Object.fromEntries(pairs) as Record<EpochId, EpochId>;
}

function isContentsMessage(item: Announcement): item is ContentsMessage {
  return item.kind === "contents" || item.kind === "answered";
}

/** Null: the core need not know. */
function announcedItem(item: Announcement): AnnouncedItem | null {
  if (isContentsMessage(item)) return null;
  const base = {
    kind: item.kind,
    id: item.id.toLowerCase() as TxnId,
    epoch: item.epoch.toLowerCase() as EpochId,
  };
  const owner = item.owner === undefined ? NOBODY : BigInt(item.owner);
  if (item.kind === "withdrawn") return { ...base, owner, by: item.by };
  if (item.kind === "position") return { ...base, owner, offset: BigInt(item.offset) as Offset };
  const { by, endsWithinMs, metadata, maxDelayMs, level, atRisk } = item;
  return {
    ...base,
    owner,
    by,
    endsWithinMs,
    ...(metadata !== undefined && { metadata }),
    ...(atRisk !== undefined && { atRisk }),
    ...(maxDelayMs !== undefined && { maxDelayMs }),
    ...(level !== undefined && { level }),
  };
}
