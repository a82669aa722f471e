// Transactions that asked for a report when they are not durable in time.
import { type Offset, ZERO } from "@highwater/protocol";
import { hasEntryReached, heldCount } from "./ledger.ts";
import { levelNames } from "./levels.ts";
import { type Effect } from "./effects.ts";
import { type Deadline, type Ledger, type Own, type TrackerState } from "./types.ts";
import { judge } from "./verdict.ts";

const MIN_TIDY = 1_024;

const own = ({ ledger }: TrackerState): Pick<Own<Ledger>, "deadlines"> => ledger as Own<Ledger>;

export function addDeadline(state: TrackerState, deadline: Deadline): void {
  own(state).deadlines.push(BigInt(deadline.atMs) as Offset, deadline);
}

/**
 * Reports once each whose time is over and which is neither durable at its level nor judged
 * otherwise.
 */
export function noticeDelays(state: TrackerState, effects: Effect[]): void {
  const { standing } = state.topology;
  const { deadlines } = own(state);
  if (standing.kind !== "following") return;
  if (deadlines.size > 2 * heldCount(state) + MIN_TIDY)
    deadlines.retain((_, deadline) => isWaiting(state, deadline));
  const now = BigInt(Math.floor(state.nowMs)) as Offset;
  for (let due = deadlines.popUpTo(now); due !== undefined; due = deadlines.popUpTo(now)) {
    if (!isWaiting(state, due)) continue;
    const { id, owner, attempt } = due;
    const waiting = attempt === state.ledger.backlog.epoch ? state.ledger.backlog.get(due) : undefined;
    const entry = state.ledger.entries.get(due.key);
    const position = waiting === undefined ? entry?.origin : { epoch: attempt, offset: waiting.offset };
    const about = {
      id,
      owner,
      attempt,
      kind: "write",
      position: position ?? { epoch: attempt, offset: ZERO },
    } as const;
    const verdicts = Object.fromEntries(
      levelNames(state).map((name) => [name, judge(state, about, name).verdict]),
    );
    effects.push({
      kind: "publish_delayed",
      published: {
        id,
        attempt,
        kind: "write",
        origin: position ?? null,
        owner,
        verdicts,
        rule: "R4 waiting",
        settledAt: "",
        retriedIn: null,
        metadata: (waiting ?? entry)?.metadata ?? null,
      },
    });
  }
}

function isWaiting(state: TrackerState, deadline: Deadline): boolean {
  const { attempt, key, level } = deadline;
  const levels = levelNames(state);
  const name = levels.includes(level) ? level : (levels.at(-1) ?? "");
  const waiting = attempt === state.ledger.backlog.epoch ? state.ledger.backlog.get(deadline) : undefined;
  if (waiting !== undefined) return !state.ledger.backlog.hasReached(waiting, name);
  const entry = state.ledger.entries.get(key);
  if (entry === undefined || ["lost", "expired", "unknown"].includes(entry.state.kind)) return false;
  return !hasEntryReached(state, entry, name);
}
