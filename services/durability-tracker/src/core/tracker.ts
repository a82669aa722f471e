// One tracker's knowledge: four sub-states, and apply(event), the only way in which they change.
// Synchronous; time arrives in events. Each field is written by one module (ownership.test.ts), in
// place: a ledger of a million entries is not copied for a mark. transitions.md has the diagrams.
// (docs/decisions/0008-the-core-owns-its-state.md)
import { type EpochId } from "@highwater/protocol";
import { age } from "./ageing.ts";
import { takeAnnouncements, takeToken } from "./announcements.ts";
import { noticeDelays } from "./delays.ts";
import { publishDeparted } from "./departed.ts";
import { endHelp, forgetHelp, helpFlush } from "./flush-help.ts";
import { reconfigure } from "./levels-change.ts";
import { settleByMarks, wantDurable } from "./ledger.ts";
import { advanceMarks } from "./marks.ts";
import { forgetPositions, noticeSilence, takePositions, takeReport, takeUnreachable } from "./nodes.ts";
import { takePeerVerdicts } from "./peer-verdicts.ts";
import { repositionUnplaced, repositionAll } from "./placing.ts";
import { noticeBrokenPromises } from "./promises.ts";
import { askForProof, publishProven, takeNoReceipts, takeReceipts } from "./proof.ts";
import { noticeStalls } from "./stalls.ts";
import { takeWitnesses } from "./survivors.ts";
import { beginEpoch, currentEpoch, follow, unsettle } from "./topology.ts";
import { type Effect } from "./effects.ts";
import { type TrackerEvent } from "./events.ts";
import { type Own, type TrackerState } from "./types.ts";

const own = (state: TrackerState): Pick<Own<TrackerState>, "nowMs"> => state;

export class Tracker implements TrackerState {
  readonly config: TrackerState["config"];
  readonly levelBits: TrackerState["levelBits"];
  readonly nowMs: number;
  readonly topology: TrackerState["topology"];
  readonly ledger: TrackerState["ledger"];
  readonly proofs: TrackerState["proofs"];
  readonly exposure: TrackerState["exposure"];

  constructor(state: TrackerState) {
    this.config = state.config;
    this.levelBits = state.levelBits;
    this.nowMs = state.nowMs;
    this.topology = state.topology;
    this.ledger = state.ledger;
    this.proofs = state.proofs;
    this.exposure = state.exposure;
  }

  /**
   * Applies an event. Throws if an invariant does not hold; the object must not be used after that.
   */
  apply(event: TrackerEvent): readonly Effect[] {
    const effects: Effect[] = [];
    // Reports are ordered by when they were asked for: if the clock went back, one could confirm a
    // stream too early.
    if (event.nowMs < this.nowMs)
      throw new Error(
        `time went back from ${String(this.nowMs)} to ${String(event.nowMs)} ms: ${event.kind}`,
      );
    own(this).nowMs = event.nowMs;
    apply(this, event, effects);
    askForProof(this, effects);
    return effects;
  }
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
      unsettle(state, event.reason, event.split);
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
      endHelp(state, event.epoch);
      return;
    case "configured":
      reconfigure(state, event, effects);
      return;
    case "durable_wanted":
      wantDurable(state, event.wanted);
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

function followEpoch(state: TrackerState, epoch: EpochId, node: string, effects: Effect[]): void {
  // Without the epoch's record this tracker cannot judge by it, nor by the one before. The record
  // comes with the node's own report, and the report of its epoch after it.
  if (!state.topology.epochs.has(epoch)) {
    unsettle(state, `epoch ${epoch} has no record yet`);
    return;
  }
  if (state.topology.wentBack === epoch) return;
  const before = currentEpoch(state);
  follow(state, epoch, node);
  if (before === epoch) {
    // The same epoch is current again after a moment without authority: only entries that came in
    // between must be placed.
    repositionUnplaced(state, effects);
    settleByMarks(state, effects);
    return;
  }
  // A process that has just started knows the last epoch from the attempts that waited in it.
  const ended = before ?? state.ledger.backlog.epoch ?? undefined;
  beginEpoch(state, epoch);
  forgetHelp(state);
  forgetPositions(state);
  effects.push({ kind: "publish_epochs" });
  repositionAll(state, effects);
  noticeBrokenPromises(state, ended, effects);
  publishDeparted(state, effects);
  settleByMarks(state, effects);
}
