// Takes the reports of nodes. The delicate part: whose position counts in the current epoch.
import { type EpochId, formatOffset, maxOffset, type Offset } from "@highwater/protocol";
import { learnPromises } from "./learned.ts";
import { NOT_SYNCHRONOUS, synchronousSet } from "./synchronous.ts";
import { addRecords, unsettle } from "./topology.ts";
import { type Effect } from "./effects.ts";
import { type TrackerEvent } from "./events.ts";
import { type NodeState, type Own, type Topology, type TrackerState } from "./types.ts";

/** Dead streams of one node that a primary can be expected to show at the same time. */
const MAX_ENDED_FEEDS = 16;

type Node = Own<NodeState>;

const own = ({
  topology,
}: TrackerState): Pick<Own<Topology>, "primaryFlushed" | "primaryReport" | "wentBack" | "synchronous"> =>
  topology;

function nodeOf({ topology }: TrackerState, id: string): Node | undefined {
  return topology.nodes.get(id);
}

function nodesOf({ topology }: TrackerState): Iterable<Node> {
  return topology.nodes.values();
}

type EventOf<K extends TrackerEvent["kind"]> = Extract<TrackerEvent, { kind: K }>;

/**
 * Takes a node's report about itself: whether it is of the current epoch's history, and which
 * stream feeds it. Returns true when it reported new epochs.
 */
export function takeReport(state: TrackerState, event: EventOf<"node_reported">, effects: Effect[]): boolean {
  const fresh = event.epochs.filter((record) => !state.topology.epochs.has(record.id as EpochId));
  const raised = event.epochs.filter((record) => state.topology.epochs.isRaised(record));
  addRecords(state, event.epochs);
  if (fresh.length + raised.length > 0) effects.push({ kind: "save_epochs", records: [...fresh, ...raised] });
  const ended = raised.flatMap(({ previous }) => (previous === null ? [] : [previous as EpochId]));
  learnPromises(state, new Set(ended), effects);
  const node = nodeOf(state, event.node);
  if (node !== undefined) describe(state, node, event);
  return fresh.length > 0;
}

function describe(state: TrackerState, node: Node, event: EventOf<"node_reported">): void {
  // A later report has overtaken this one: the server may have restarted in between.
  if (event.askedAtMs < node.askedAtMs) return;
  node.reportedAtMs = event.nowMs;
  node.alive = true;
  node.role = event.role;
  node.unfit = event.unfit;
  if (node.incarnation !== event.incarnation) beginLife(node, event.incarnation);
  node.askedAtMs = event.askedAtMs;
  const { standing } = state.topology;
  const newest = event.epochs.at(-1)?.id;
  if (standing.kind !== "following" || event.role !== "replica" || newest !== standing.epoch || event.unfit) {
    // Its history is another one, or not yet this one, so its position does not count in this
    // epoch.
    node.candidateFeed = null;
    node.ownStream = null;
    if (lacksCurrent(state, event)) node.position = null;
    return;
  }
  // The node has the epoch's row. If the primary showed the same stream before the node was asked,
  // and still shows it in its next report, the stream's positions are of this epoch.
  const { feed } = node;
  // The node was cloned anew and is not connected yet: the stream that the primary shows under its
  // name is a dead one of an earlier life.
  if (event.isFed === false) node.candidateFeed = null;
  else if (feed !== null && feed.sinceMs <= event.askedAtMs && isUnconfirmed(node, feed.session))
    node.candidateFeed = { session: feed.session, seenAtMs: event.nowMs };
  takeOwnStream(node, event);
}

/** An older copy was put under the replica: it does not have what it had in this epoch. */
function lacksCurrent({ topology: { standing } }: TrackerState, event: EventOf<"node_reported">): boolean {
  if (standing.kind !== "following" || event.role !== "replica") return false;
  return !event.epochs.some(({ id }) => id === standing.epoch);
}

/**
 * Begins the life of a restarted server. Its earlier streams are dead, even if the primary still
 * shows one. It may have been put back to an older copy, so what it had counts no more.
 */
function beginLife(node: Node, incarnation: string): void {
  node.incarnation = incarnation;
  node.position = null;
  node.streamed = null;
  node.ownStream = null;
  node.candidateFeed = null;
  // A stream shown before the last report of the earlier life belongs to that life, confirmed or
  // not.
  const shown = node.feed !== null && node.feed.sinceMs <= node.askedAtMs ? node.feed.session : null;
  const ended = [node.confirmedFeed, shown].filter((session) => session !== null);
  node.endedFeeds = [...node.endedFeeds, ...ended].slice(-MAX_ENDED_FEEDS);
  node.confirmedFeed = null;
}

function isUnconfirmed(node: NodeState, session: string): boolean {
  return (
    node.confirmedFeed !== session &&
    !node.endedFeeds.includes(session) &&
    node.candidateFeed?.session !== session
  );
}

function takeOwnStream(node: Node, event: EventOf<"node_reported">): void {
  const { upstream } = event;
  if (upstream === null) {
    node.ownStream = null;
    return;
  }
  if (node.ownStream?.session !== upstream.session) {
    const { session, flushed } = upstream;
    node.ownStream = { session, seenAtMs: event.nowMs, hadThen: flushed, confirmed: false };
    return;
  }
  // The same stream as one that the current primary has confirmed: a stream never changes its
  // source, so it counts even when the primary cannot be asked any more.
  if (node.ownStream.confirmed) raise(node, upstream.flushed);
}

export function takeUnreachable(state: TrackerState, event: EventOf<"node_unreachable">): void {
  const node = nodeOf(state, event.node);
  if (node !== undefined) node.alive = false;
}

/** Takes the current primary's report about itself and its replicas. */
export function takePositions(
  state: TrackerState,
  event: EventOf<"positions_reported">,
  effects: Effect[],
): void {
  const { standing } = state.topology;
  if (standing.kind !== "following" || event.epoch !== standing.epoch || event.node !== standing.node) return;
  const primary = nodeOf(state, event.node);
  if (primary === undefined || noticeReturn(state, event, effects)) return;
  primary.reportedAtMs = event.nowMs;
  primary.alive = true;
  if (!primary.unfit && event.flushed !== null) raise(primary, event.flushed);
  own(state).primaryFlushed = primary.position;
  const shown = new Set<string>();
  for (const replica of event.replicas) {
    const node = nodeOf(state, replica.node);
    if (node === undefined || node === primary) continue;
    shown.add(replica.node);
    if (node.feed?.session !== replica.session) {
      // A new stream may feed another server under the old name, or one that was cloned anew.
      node.feed = { session: replica.session, sinceMs: event.nowMs };
      node.candidateFeed = null;
      // The server may have been put back to an older copy, and not have reported that yet.
      if (node.position !== null && replica.flushed < node.position) node.position = null;
    }
    // If the primary was asked before the node, its report can be older than the node's.
    if (node.candidateFeed?.session === replica.session && node.candidateFeed.seenAtMs <= event.askedAtMs) {
      node.confirmedFeed = replica.session;
      node.candidateFeed = null;
      // A node that was cloned anew may have lost what it had in an earlier stream. Only what it
      // reports now counts.
      node.position = null;
      node.streamed = null;
    }
    if (node.confirmedFeed === replica.session && !node.unfit) raise(node, replica.flushed);
    // A node has one stream at a time, but the primary may still show a dead one while another
    // server feeds the node. A stream that has brought more than the node had when it named its own
    // is the node's own stream.
    if (
      node.ownStream?.confirmed === false &&
      node.ownStream.seenAtMs <= event.askedAtMs &&
      node.ownStream.hadThen < replica.flushed &&
      node.confirmedFeed === replica.session
    )
      node.ownStream = { ...node.ownStream, confirmed: true };
  }
  own(state).synchronous = synchronousSet(state, event);
  // A replica that is cut off disappears from the view. The position that it had reached stays
  // valid.
  for (const node of nodesOf(state)) if (!shown.has(node.site.id)) node.feed = null;
}

/**
 * While a server runs, its disk never holds less than before. If it does, an older state was put
 * under it, such as a snapshot of a virtual machine, and its epoch's marks say nothing about the
 * log that it writes now. Compares only reports of the primary itself, the later one asked for
 * after the earlier had arrived: those of replicas arrive in any order.
 */
function noticeReturn(state: TrackerState, event: EventOf<"positions_reported">, effects: Effect[]): boolean {
  const { primaryReport: before } = state.topology;
  const { node, epoch, flushed: now, askedAtMs, nowMs } = event;
  // A server that does not flush at the moment reports no position to compare.
  if (now === null || (before !== null && askedAtMs <= before.askedAtMs)) return false;
  own(state).primaryReport = { flushed: now, askedAtMs, receivedAtMs: nowMs };
  if (before === null || now >= before.flushed || askedAtMs < before.receivedAtMs) return false;
  const was = before.flushed;
  own(state).wentBack = epoch;
  const reason = `${node} went back from ${formatOffset(was)} to ${formatOffset(now)} within epoch ${epoch}: an older state was put under the running server; a new epoch is about to begin`;
  unsettle(state, reason);
  effects.push({ kind: "disown_epoch", node, epoch, was, now });
  return true;
}

function raise(node: Node, offset: Offset): void {
  node.position = node.position === null ? offset : maxOffset(node.position, offset);
  node.streamed = node.streamed === null ? offset : maxOffset(node.streamed, offset);
}

/** Forgets all positions: none of an earlier epoch counts in a new one. */
export function forgetPositions(state: TrackerState): void {
  const topology = own(state);
  topology.primaryFlushed = null;
  topology.primaryReport = null;
  topology.synchronous = NOT_SYNCHRONOUS;
  for (const node of nodesOf(state)) {
    node.position = null;
    node.streamed = null;
    node.confirmedFeed = null;
    node.candidateFeed = null;
    node.ownStream = null;
  }
}

/** Nodes that have been silent for too long do not count among the survivors. */
export function noticeSilence(state: TrackerState): void {
  for (const node of nodesOf(state)) {
    if (node.reportedAtMs !== null && state.nowMs - node.reportedAtMs > state.config.aliveMs)
      node.alive = false;
  }
}
