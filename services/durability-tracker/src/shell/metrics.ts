// The tracker's numbers as Prometheus text.
import { type EpochId } from "@highwater/protocol";
import { heldCount, pendingAt, type TrackerState } from "../core/index.ts";

export function metricsText(
  state: TrackerState,
  streams: number,
  told: { readonly lost: number; readonly broken: number },
): string {
  const current = state.ancestry.at(-1);
  const marks = current === undefined ? undefined : state.marks.get(current.id as EpochId);
  const lines = [
    "# TYPE highwater_mark_bytes gauge",
    ...[...(marks ?? [])].map(
      ([level, offset]) => `highwater_mark_bytes{level="${level}"} ${offset.toString()}`,
    ),
    "# TYPE highwater_pending_transactions gauge",
    ...state.config.levels.map(
      ({ name }) => `highwater_pending_transactions{level="${name}"} ${String(pendingAt(state, name))}`,
    ),
    "# TYPE highwater_ledger_entries gauge",
    `highwater_ledger_entries ${String(heldCount(state))}`,
    "# TYPE highwater_epoch gauge",
    `highwater_epoch ${String(current?.seq ?? 0)}`,
    "# TYPE highwater_authority_settled gauge",
    `highwater_authority_settled ${state.standing.kind === "reigning" ? "1" : "0"}`,
    "# TYPE highwater_split_brain gauge",
    `highwater_split_brain ${state.standing.kind === "unsettled" && state.standing.split ? "1" : "0"}`,
    "# TYPE highwater_stream_clients gauge",
    `highwater_stream_clients ${String(streams)}`,
    "# TYPE highwater_lost_total counter",
    `highwater_lost_total ${String(told.lost)}`,
    "# TYPE highwater_broken_total counter",
    `highwater_broken_total ${String(told.broken)}`,
  ];
  return lines.join("\n") + "\n";
}
