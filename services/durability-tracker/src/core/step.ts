// step(state, event): the only way in which the tracker's knowledge changes. Synchronous and total;
// time arrives in events. The state is the core's own and is changed in place (a ledger of a
// million entries is not copied for a mark); no other code may write to it.
// (docs/decisions/0008-the-core-owns-its-state.md)
import { type EpochId } from "@highwater/protocol";
import { age } from "./ageing.ts";
import { takeAnnouncements, takeToken } from "./announcements.ts";
import { noticeDelays } from "./delays.ts";
import { reconfigure } from "./levels-change.ts";
import { settleByMarks } from "./ledger.ts";
import {
  advanceMarks,
  forgetPositions,
  noticeSilence,
  takePositions,
  takeReport,
  takeUnreachable,
} from "./nodes.ts";
import { repositionUnplaced, repositionAll } from "./placing.ts";
import { publishDeparted } from "./departed.ts";
import { noticeBrokenPromises } from "./promises.ts";
import { askForProof, publishProven, takeNoReceipts, takeReceipts } from "./proof.ts";
import { noticeStalls } from "./stalls.ts";
import { takeWitnesses } from "./survivors.ts";
import { type Effect, type Step, type TrackerEvent, type TrackerState } from "./types.ts";
import { takePeerVerdicts } from "./peer-verdicts.ts";

/** A flush by the gateway that committed is on its way for so long before the tracker lends a hand. */
const HELP_AFTER_MS = 20;

export function step(state: TrackerState, event: TrackerEvent): Step {
  const effects: Effect[] = [];
  // Monotonic time never goes back; an event that was made earlier and arrives late is as if it arrived now.
  state.nowMs = Math.max(state.nowMs, event.nowMs);
  apply(state, event, effects);
  askForProof(state, effects);
  return { state, effects };
}

function apply(state: TrackerState, event: TrackerEvent, effects: Effect[]): void {
  switch (event.kind) {
    case "node_reported":
      if (takeReport(state, event, effects)) repositionUnplaced(state, effects);
      advanceMarks(state, effects);
      settleByMarks(state, effects);
      publishProven(state, effects);
      return;
    case "node_unreachable":
      takeUnreachable(state, event);
      return;
    case "positions_reported":
      takePositions(state, event, effects);
      if (advanceMarks(state, effects)) {
        settleByMarks(state, effects);
        publishProven(state, effects);
      }
      helpFlush(state, effects);
      return;
    case "epoch_followed":
      followEpoch(state, event.epoch, event.node, effects);
      return;
    case "authority_unsettled":
      state.standing = { kind: "unsettled", reason: event.reason, split: event.split };
      return;
    case "announced":
      takeAnnouncements(state, event, effects);
      settleByMarks(state, effects);
      return;
    case "token_presented":
      takeToken(state, event, effects);
      settleByMarks(state, effects);
      return;
    case "receipts_read":
      takeReceipts(state, event, effects);
      settleByMarks(state, effects);
      publishProven(state, effects);
      return;
    case "receipts_unread":
      takeNoReceipts(state, event.request, effects);
      return;
    case "peer_verdicts_received":
      takePeerVerdicts(state, event.peerVerdicts, effects);
      return;
    case "witnesses_read":
      takeWitnesses(state, event, effects);
      return;
    case "flush_helped":
      // The help of an earlier epoch may be hanging on a dead node; its end says nothing of the one
      // in flight now.
      if (event.epoch === undefined || isFollowed(state, event.epoch)) state.helping = false;
      return;
    case "configured":
      reconfigure(state, event, effects);
      return;
    case "durable_wanted":
      state.publishesDurable = event.wanted;
      return;
    case "ticked":
      noticeSilence(state);
      publishProven(state, effects);
      noticeStalls(state, effects);
      noticeDelays(state, effects);
      age(state, effects);
      return;
  }
}

function isFollowed(state: TrackerState, epoch: EpochId): boolean {
  return state.ancestry.at(-1)?.id === epoch;
}

function followEpoch(state: TrackerState, epoch: EpochId, node: string, effects: Effect[]): void {
  // Without its record nothing can be said of it, and nothing more of the one before. The record
  // comes with the node's own report, and the report of its epoch after it.
  if (!state.epochs.has(epoch)) {
    state.standing = { kind: "unsettled", reason: `epoch ${epoch} has no record yet`, split: false };
    return;
  }
  if (state.wentBack === epoch) return;
  const before = state.ancestry.at(-1)?.id;
  state.standing = { kind: "following", epoch, node };
  if (before === epoch) {
    // The same epoch seen again after a moment without authority: only what came in between has to
    // be placed.
    repositionUnplaced(state, effects);
    settleByMarks(state, effects);
    return;
  }
  // A process that has just started knows the last epoch by what waited in it.
  const ended = (before ?? state.backlog.epoch ?? undefined) as EpochId | undefined;
  state.ancestry = state.epochs.ancestry(epoch).reverse();
  state.epochSinceMs = state.nowMs;
  state.seenEnd = (before ?? null) as EpochId | null;
  state.unflushedSinceMs = null;
  state.helping = false;
  forgetPositions(state);
  effects.push({ kind: "publish_epochs" });
  repositionAll(state, effects);
  noticeBrokenPromises(state, ended, effects);
  publishDeparted(state, effects);
  settleByMarks(state, effects);
}

/** Exactly one flush in flight, and only while something that is pending has not reached even the primary's disk. */
function helpFlush(state: TrackerState, effects: Effect[]): void {
  const { standing } = state;
  if (standing.kind !== "following") return;
  if (state.primaryFlushed !== null && state.highestPending <= state.primaryFlushed) {
    state.unflushedSinceMs = null;
    return;
  }
  if (state.highestPending === 0n) return;
  state.unflushedSinceMs ??= state.nowMs;
  if (state.helping || state.nowMs - state.unflushedSinceMs < HELP_AFTER_MS) return;
  state.helping = true;
  effects.push({ kind: "help_flush", node: standing.node, epoch: standing.epoch });
}
