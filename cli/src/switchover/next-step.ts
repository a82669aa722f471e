// Decides the next step of a switchover from what the nodes are now. Pure, and without memory: a
// command that died is continued by another that looks anew. Why no step loses anything:
//
// * The old primary is not stopped but made a standby, and has to answer as one. Only that shows
//   that no client can commit there any more, and where its log ends. A server that does not answer
//   shows neither.
// * No node is promoted before it has replayed up to that end.
// * The old primary itself names the node that may be promoted, in the file that makes it a
//   standby. While it is one, no other choice is followed, except to promote it again.
import { type Offset } from "@highwater/protocol";

/** Of the file that makes a server a standby when it starts. */
export type Signal =
  | { readonly kind: "absent" }
  /** Written by this command. */
  | { readonly kind: "hands_over"; readonly to: string }
  | { readonly kind: "foreign" };

export interface NodeState {
  readonly node: string;
  /** Null: it does not answer. */
  readonly role: "primary" | "replica" | null;
  /** It is of the current history, and a replica is fit to be promoted. */
  readonly counts: boolean;
  /** A primary: its own epoch has begun. */
  readonly hasEpoch: boolean;
  /** Why it does not answer, or does not count. */
  readonly why: string | null;
  /** A replica: what it has replayed. A primary: the end of its log. */
  readonly applied: Offset;
  /** Of its log. Null: the server does not say. */
  readonly timeline: number | null;
  /** A replica: it has replayed all of its log, and waits for more. */
  readonly waitsForLog: boolean;
  /** A promotion was requested, and has not begun yet. */
  readonly isPromoting: boolean;
  readonly signal: Signal;
  /** It streams from the target, directly or through a standby that it has always followed. */
  readonly followsTarget: boolean;
}

export interface Scene {
  /** The node that is to be the primary. */
  readonly target: string;
  /** The node in which the current epoch began. */
  readonly owner: string;
  readonly nodes: ReadonlyMap<string, NodeState>;
  /** Nodes that need not answer, and are not pointed at the target. */
  readonly leftOut: ReadonlySet<string>;
  /** Nodes that were pointed at the target already. */
  readonly pointed: ReadonlySet<string>;
  /** Of the target, where it is writable. */
  readonly authority: "needs_command" | "waits_for_services" | "settled";
  /** Replication slots that no node uses any more. */
  readonly leftSlots: readonly { readonly node: string; readonly slot: string }[];
}

export type Step =
  | { readonly kind: "refuse"; readonly reasons: readonly string[] }
  /** Nothing to do but to look again. `on`: the node that it depends on. */
  | { readonly kind: "wait"; readonly on: string; readonly reason: string }
  /** Makes the primary a standby at its next start. */
  | { readonly kind: "hand_over"; readonly node: string }
  /** Takes that back. */
  | { readonly kind: "call_off"; readonly node: string }
  | { readonly kind: "restart"; readonly node: string }
  /** `arbiter`: the old primary, which lets one promotion run at a time. */
  | {
      readonly kind: "promote";
      readonly node: string;
      readonly arbiter: string;
      /** The end of the old primary's log, and what the node has of it. */
      readonly end: Offset;
      readonly reached: Offset;
    }
  | { readonly kind: "authorize"; readonly node: string }
  | { readonly kind: "follow"; readonly nodes: readonly string[] }
  | { readonly kind: "tidy"; readonly slots: Scene["leftSlots"] }
  | { readonly kind: "done" };

/**
 * While the target is further behind, the primary is not restarted: no transaction commits then.
 */
const BEHIND_MAX_BYTES = 16n * 1_048_576n;

export function nextStep(scene: Scene): Step {
  const writable = [...scene.nodes.values()].filter(({ role }) => role === "primary");
  const [primary] = writable;
  if (writable.length > 1) {
    const names = writable.map(({ node }) => node).join(" and ");
    return refuse(`${names} are all writable: highwater failover candidate says how to settle that`);
  }
  if (primary === undefined) return withoutPrimary(scene);
  return primary.node === scene.target ? withTarget(scene, primary) : withOther(scene, primary);
}

/** Another node is the primary. */
function withOther(scene: Scene, primary: NodeState): Step {
  const { target, owner, nodes, leftOut } = scene;
  if (primary.node !== owner)
    return refuse(
      `${primary.node} is writable, and the current epoch began on ${owner}: highwater failover candidate says how to settle that`,
    );
  if (!primary.counts) return refuse(`${owner} ${primary.why ?? ""}`);
  if (!primary.hasEpoch) return { kind: "wait", on: owner, reason: `${owner} ${primary.why ?? ""}` };
  const heir = nodes.get(target);
  const silent = [...nodes.values()].filter(({ node, role }) => role === null && !leftOut.has(node));
  const reasons = silent.map(({ node, why }) =>
    node === target
      ? `${node} ${why ?? ""}`
      : `${node} ${why ?? ""}. Bring it back, or add --without ${node}: it then has to be pointed at ${target} later`,
  );
  if (heir !== undefined && heir.role !== null && !heir.counts) reasons.push(`${target} ${heir.why ?? ""}`);
  if (heir === undefined || reasons.length > 0) return { kind: "refuse", reasons };
  switch (primary.signal.kind) {
    case "foreign":
      return refuse(
        `${owner} has a standby.signal that this command did not write, and would become a standby at its next start. Find out what wrote it, and remove it`,
      );
    case "hands_over":
      return primary.signal.to === target
        ? { kind: "restart", node: owner }
        : refuse(otherChoice(owner, primary.signal.to));
    case "absent":
      break;
  }
  const behind = primary.applied - heir.applied;
  if (behind > BEHIND_MAX_BYTES)
    return { kind: "wait", on: target, reason: `${target} is ${behind.toString()} bytes behind ${owner}` };
  return { kind: "hand_over", node: owner };
}

/** No node is writable: the old primary is being restarted, or is a standby now. */
function withoutPrimary(scene: Scene): Step {
  const { target, owner, nodes } = scene;
  const old = nodes.get(owner);
  if (old === undefined)
    return refuse(`no node is writable, and ${owner}, where the current epoch began, is not in the topology`);
  if (old.role === null)
    return {
      kind: "wait",
      on: owner,
      reason: `${owner} ${old.why ?? ""}. It has to come back as a standby: only its log shows that nothing is missing`,
    };
  const { signal } = old;
  if (signal.kind !== "hands_over")
    return refuse(
      `no node is writable, and ${owner} was not handed over by this command. After a failure: highwater failover candidate`,
    );
  if (!old.counts) return refuse(`${owner} ${old.why ?? ""}`);
  if (target === owner) return backTo(old, signal.to, nodes);
  if (signal.to !== target) return refuse(otherChoice(owner, signal.to));
  const heir = nodes.get(target);
  if (heir === undefined || heir.role === null)
    return { kind: "wait", on: target, reason: `${target} ${heir?.why ?? "is not in the topology"}` };
  if (!heir.counts) return refuse(`${target} ${heir.why ?? ""}`);
  if (old.isPromoting || !old.waitsForLog)
    return { kind: "wait", on: owner, reason: `${owner} is still replaying its log, or is being promoted` };
  // Positions of two timelines cannot be compared.
  if (heir.timeline === null || heir.timeline !== old.timeline)
    return { kind: "wait", on: target, reason: `${target} is not on the timeline of ${owner}` };
  if (heir.applied < old.applied)
    return {
      kind: "wait",
      on: target,
      reason: `${target} lacks ${(old.applied - heir.applied).toString()} bytes that ${owner} has`,
    };
  if (heir.isPromoting) return { kind: "wait", on: target, reason: `${target} is being promoted` };
  return { kind: "promote", node: target, arbiter: owner, end: old.applied, reached: heir.applied };
}

/** The old primary becomes the primary again. It has all of its log. */
function backTo(old: NodeState, choice: string, nodes: Scene["nodes"]): Step {
  const { node } = old;
  const chosen = nodes.get(choice);
  if (chosen === undefined || chosen.role === null)
    return refuse(
      `${choice} ${chosen?.why ?? "is not in the topology"}. It was to be promoted, so it may be writable by now. Bring it back; if you know that it is off and stays off, continue as after a failure: highwater failover candidate --fenced`,
    );
  if (chosen.isPromoting || !chosen.waitsForLog || chosen.timeline !== old.timeline)
    return { kind: "wait", on: choice, reason: `${choice} may be in the middle of its promotion` };
  return { kind: "promote", node, arbiter: node, end: old.applied, reached: old.applied };
}

/** The target is the primary. */
function withTarget(scene: Scene, primary: NodeState): Step {
  const { target, nodes, leftOut, pointed, authority, leftSlots } = scene;
  if (primary.signal.kind === "hands_over") return { kind: "call_off", node: target };
  if (!primary.counts) return refuse(`${target} ${primary.why ?? ""}`);
  if (authority === "needs_command") return { kind: "authorize", node: target };
  const strays = [...nodes.values()].filter(
    ({ node, followsTarget }) => node !== target && !followsTarget && !leftOut.has(node),
  );
  const lost = strays.filter(({ role, node }) => role === "replica" && !pointed.has(node));
  if (lost.length > 0) return { kind: "follow", nodes: lost.map(({ node }) => node) };
  const [stray] = strays;
  if (stray !== undefined) {
    const { node, role, why } = stray;
    const reason =
      role === null
        ? `${node} ${why ?? ""}`
        : `${node} does not stream from ${target} yet. If it stays so, see its log, and pg_hba.conf on ${target}`;
    return { kind: "wait", on: node, reason };
  }
  if (leftSlots.length > 0) return { kind: "tidy", slots: leftSlots };
  if (authority === "waits_for_services")
    return {
      kind: "wait",
      on: target,
      reason: `no service has begun the next epoch on ${target} yet: a tracker's /readyz says why`,
    };
  return { kind: "done" };
}

function otherChoice(owner: string, to: string): string {
  return `${owner} is handing over to ${to}. Finish that: highwater switchover ${to}; or call it off: highwater switchover ${owner}`;
}

function refuse(...reasons: readonly string[]): Step {
  return { kind: "refuse", reasons };
}
