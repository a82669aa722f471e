// What gateways announce: taken in, and acknowledged when it is on local disk.
import { type FastifyInstance } from "fastify";
import {
  AnnouncementBatch,
  type EpochId,
  HighwaterError,
  type Offset,
  type TxnId,
  validate,
} from "@highwater/protocol";
import { callerOf, NOBODY } from "@highwater/service";
import { type Clock } from "@highwater/store";
import { type AnnouncedItem } from "../core/index.ts";
import { type LedgerFile } from "../shell/ledger-file.ts";
import { type TrackerLoop } from "../shell/loop.ts";

const UNKNOWN_REGION = "unknown";

export interface AnnouncementParts {
  readonly loop: TrackerLoop;
  readonly clock: Clock;
  readonly ledger: LedgerFile;
  /** Whoever could announce could make the tracker watch what never was, or forget what is. */
  readonly onlyServices: boolean;
}

export function announcementRoutes(
  scope: FastifyInstance,
  { loop, clock, ledger, onlyServices }: AnnouncementParts,
): void {
  scope.post("/internal/announcements", async (request, reply) => {
    if (onlyServices && callerOf(request).principal.isService !== true)
      throw new HighwaterError("forbidden", {
        detail: "Only gateways announce, by HIGHWATER_INTERNAL_SECRET.",
      });
    const checked = validate(AnnouncementBatch, request.body);
    if (!checked.ok)
      throw new HighwaterError("invalid_request", {
        detail: checked.faults.join("; "),
        fields: checked.faults,
      });
    const { gateway, region = UNKNOWN_REGION, announcements, parents = {} } = checked.value;
    loop.dispatch({
      ...{ kind: "announced", nowMs: clock.monotonicMs(), from: { gateway, region } },
      items: announcements.map(announcedItem),
      parents: epochsOf(parents),
    });
    await ledger.flush();
    return reply.code(204).send();
  });
}

function epochsOf(parents: Readonly<Record<string, string>>): Record<EpochId, EpochId> {
  const pairs = Object.entries(parents).map(([epoch, parent]) => [epoch.toLowerCase(), parent.toLowerCase()]);
  return Object.fromEntries(pairs) as Record<EpochId, EpochId>;
}

function announcedItem(item: AnnouncementBatch["announcements"][number]): AnnouncedItem {
  const base = {
    kind: item.kind,
    id: item.id.toLowerCase() as TxnId,
    epoch: item.epoch.toLowerCase() as EpochId,
  };
  const owner = item.owner === undefined ? NOBODY : BigInt(item.owner);
  if (item.kind === "withdrawn") return { ...base, owner, by: item.by };
  if (item.kind === "position") return { ...base, owner, offset: BigInt(item.offset) as Offset };
  const { by, endsWithinMs, metadata, maxDelayMs, level } = item;
  return {
    ...base,
    ...{ owner, by, endsWithinMs },
    ...(metadata !== undefined && { metadata }),
    ...(maxDelayMs !== undefined && { maxDelayMs }),
    ...(level !== undefined && { level }),
  };
}
