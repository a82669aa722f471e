// The tracker's numbers as Prometheus text.
import { type EpochId } from "@highwater/protocol";
import { asksForCandidates, exposure, heldCount, pendingAt, type TrackerState } from "../core/index.ts";
import { type DurabilityEvents } from "../events/durability-events.ts";
import { type Told } from "./told.ts";

export function metricsText(
  state: TrackerState,
  streams: number,
  told: Pick<Told, "lost" | "broken" | "promises" | "delayed" | "stalled">,
  events: Pick<DurabilityEvents, "counts" | "streams">,
): string {
  const current = state.ancestry.at(-1);
  const marks = current === undefined ? undefined : state.marks.get(current.id as EpochId);
  const risk = exposure(state);
  const lines = [
    "# TYPE highwater_mark_bytes gauge",
    ...[...(marks ?? [])].map(
      ([level, offset]) => `highwater_mark_bytes{level="${level}"} ${offset.toString()}`,
    ),
    "# TYPE highwater_pending_transactions gauge",
    ...state.config.levels.map(
      ({ name }) => `highwater_pending_transactions{level="${name}"} ${String(pendingAt(state, name))}`,
    ),
    "# TYPE highwater_level_stalled gauge",
    ...state.config.levels.map(
      ({ name }) => `highwater_level_stalled{level="${name}"} ${told.stalled.has(name) ? "1" : "0"}`,
    ),
    ...synchronousLines(state),
    "# TYPE highwater_exposed_transactions gauge",
    `highwater_exposed_transactions{level="${risk.level}"} ${String(risk.transactions)}`,
    "# TYPE highwater_exposed_bytes gauge",
    `highwater_exposed_bytes{level="${risk.level}"} ${risk.bytes.toString()}`,
    "# TYPE highwater_exposed_oldest_seconds gauge",
    `highwater_exposed_oldest_seconds{level="${risk.level}"} ${String((risk.oldestMs ?? 0) / 1_000)}`,
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
    "# TYPE highwater_event_stream_clients gauge",
    `highwater_event_stream_clients ${String(events.streams)}`,
    "# TYPE highwater_events_kept gauge",
    `highwater_events_kept ${String(events.counts.kept)}`,
    "# TYPE highwater_events_set_aside gauge",
    `highwater_events_set_aside ${String(events.counts.setAside)}`,
    "# TYPE highwater_events_recorded_total counter",
    `highwater_events_recorded_total ${String(events.counts.recorded)}`,
    "# TYPE highwater_lost_total counter",
    `highwater_lost_total ${String(told.lost)}`,
    "# TYPE highwater_broken_total counter",
    `highwater_broken_total ${String(told.broken)}`,
    "# TYPE highwater_broken_promises_total counter",
    `highwater_broken_promises_total ${String(told.promises)}`,
    "# TYPE highwater_delayed_total counter",
    `highwater_delayed_total ${String(told.delayed)}`,
  ];
  return lines.join("\n") + "\n";
}

/** Only where a level counts them. */
function synchronousLines(state: TrackerState): string[] {
  if (!asksForCandidates(state)) return [];
  const { synchronous } = state;
  return [
    "# TYPE highwater_synchronous_standbys gauge",
    `highwater_synchronous_standbys ${synchronous.kind === "known" ? String(synchronous.count) : "0"}`,
  ];
}
