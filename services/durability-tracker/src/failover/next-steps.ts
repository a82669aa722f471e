// The operator's next steps, word for word. The command itself changes nothing.
import { type Decision, type Refusal, type Wishes } from "./candidate.ts";

export interface NextStepsInput {
  readonly decision: Decision;
  readonly refusal: Refusal | null;
  readonly wishes: Wishes;
  readonly isLease: boolean;
}

export function nextSteps({ decision, refusal, wishes, isLease }: NextStepsInput): string[] {
  const { chosen, primary, occupant } = decision;
  switch (refusal) {
    case "primary_answers":
      if (occupant === null) return ["No promotion is needed. For a planned change ask with --switchover."];
      return isLease ? [] : [informHighwater(occupant, decision), WATCH];
    case "split_brain":
      return [
        "Turn off, or cut off from all clients, every writable node but the one that you keep.",
        "On the one that you keep: write an operator's command that names the others' epochs (highwater.authority_command).",
        WATCH,
      ];
    case "no_candidate":
      return [
        "Bring a node of the current history back, then ask again. --accept-loss looks for an older one.",
      ];
    case "still_fed":
      return [
        `Turn off ${primary ?? "the old primary"}, or stop the replicas' streams (ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf();), then ask again.`,
        "If you know that it is off: ask again with --fenced.",
      ];
    case "loss":
      return [
        "Bring back nodes that do not answer, or make them reachable from here, then ask again.",
        "If you give up what they may have: ask again with --accept-loss.",
      ];
    case null:
      break;
  }
  if (chosen === null) return [];
  if (isLease)
    return [
      `HIGHWATER_AUTHORITY is lease: the HA manager promotes, not you. Tell it to choose ${chosen.node}.`,
    ];
  if (wishes.isSwitchover)
    return [
      `highwater switchover ${chosen.node} does everything that follows, and loses nothing. By hand:`,
      ...handOver(primary ?? "the primary"),
    ];
  return [
    `Make sure that ${primary ?? "the old primary"} is off and stays off: anything it accepts from now on is lost.`,
    `On ${chosen.node}: SELECT pg_promote();`,
    informHighwater(chosen.node, decision),
    "On the other replicas: point primary_conninfo to it (ALTER SYSTEM SET primary_conninfo = '…'; SELECT pg_reload_conf();).",
    WATCH,
  ];
}

/**
 * A clean stop does not prove that replicas have everything: a stream may break, and since
 * PostgreSQL 19 a time limit may end it. Only the positions afterwards show it.
 */
function handOver(primary: string): string[] {
  return [
    `On ${primary}, if it is PostgreSQL 19 or newer: ALTER SYSTEM SET wal_sender_shutdown_timeout = -1; SELECT pg_reload_conf(); With another value, a clean stop may leave replicas behind.`,
    `Stop ${primary} cleanly (pg_ctl stop -m fast): it first sends what they lack to the replicas whose streams stay open.`,
    "Ask again without --switchover: the positions are then final, and the report says what a promotion would lose.",
  ];
}

const WATCH =
  "Watch GET /readyz of a tracker: it is ready, and names the node and the new epoch, once Highwater follows.";

/** Names are letters, digits, '-' and '_', and epochs are UUIDs: nothing to quote. */
function informHighwater(node: string, { overrules, primary }: Decision): string {
  const reason = primary === null ? "failover" : `failover from ${primary}`;
  return `highwater failover authorize ${node}; or on ${node}, as Highwater's service role: SET synchronous_commit = local; INSERT INTO highwater.authority_command (node, reason, overrules) VALUES ('${node}', '${reason}', '{${overrules.join(",")}}');`;
}
