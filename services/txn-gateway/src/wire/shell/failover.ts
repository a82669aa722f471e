// Judges, after the end of a session's epoch, the commits whose answers it still holds, and chooses
// the error with which the session ends.
import { type EpochId } from "@highwater/protocol";
import { type Report } from "../frames/build.ts";
import { type Gate } from "../model/hold-queue.ts";
import { type WireAttempt, type WireAttempts } from "./attempts.ts";

/** `unknown`: it has no receipt, or no tracker answered in time. */
export type HeldVerdict = "durable" | "lost" | "unknown";

export const FAILED_OVER: Report = {
  severity: "FATAL",
  code: "57P01",
  message: "terminating connection due to administrator command",
  detail: "The primary of this session is no longer the primary.",
};
const LOST: Report = {
  severity: "FATAL",
  code: "40001",
  message: "the transaction committed and was lost in a failover; run it again under a new id",
};
const NOT_KNOWN: Report = {
  severity: "FATAL",
  code: "40003",
  message: "it is not known yet whether the transaction has survived a failover",
  hint: "Ask for its state by its id, or send it again with the same highwater.id.",
};
const SAID: Readonly<Record<HeldVerdict, string>> = {
  durable: "is durable",
  lost: "is lost",
  unknown: "has no known outcome yet",
};

interface Judges {
  readonly attempts: Pick<WireAttempts, "outcomeOf" | "positionVerdict">;
  readonly owner: bigint;
  readonly epoch: EpochId;
}

/** A verdict for each gate, in order. Gates without a commit are `durable` or `unknown`. */
export async function judgeHeld(
  gates: readonly Gate[],
  { attempts, owner, epoch }: Judges,
): Promise<ReadonlyMap<Gate, HeldVerdict>> {
  const ofReceipt = async (gate: Gate): Promise<HeldVerdict> => {
    const attempt = gate.attempt as WireAttempt | null;
    if (attempt === null) return "unknown";
    if (gate.position === null) {
      const outcome = await attempts.outcomeOf(attempt.receipt, epoch);
      return outcome === "never" ? "lost" : "unknown";
    }
    const verdict = await attempt.verdict(gate.position, gate.level);
    if (verdict === "durable") return "durable";
    return verdict === "lost" || verdict === "broken" ? "lost" : "unknown";
  };
  const found = await Promise.all(gates.map(ofReceipt));
  // A commit without a receipt is judged only if a later answer could go out.
  const last = found.lastIndexOf("durable");
  const ofPosition = async (gate: Gate, at: number): Promise<HeldVerdict> => {
    const verdict = found[at] ?? "unknown";
    if (at > last || gate.attempt !== null || gate.position === null) return verdict;
    const isDurable = await attempts.positionVerdict(owner, gate.position, gate.level);
    return isDurable ? "durable" : verdict;
  };
  const verdicts = await Promise.all(gates.map(ofPosition));
  return new Map(gates.map((gate, at) => [gate, verdicts[at] ?? "unknown"]));
}

/**
 * `gates` were not answered. A driver takes the error for the answer to the first of them, so the
 * code gives that commit's outcome; the detail gives the outcome of each commit that has a receipt.
 */
export function endOf(gates: readonly Gate[], verdicts: ReadonlyMap<Gate, HeldVerdict>): Report {
  const commits = gates.filter(({ isCommit }) => isCommit);
  const verdictOf = (gate: Gate): HeldVerdict => verdicts.get(gate) ?? "unknown";
  const said = commits.flatMap((gate) => {
    const attempt = gate.attempt as WireAttempt | null;
    return attempt === null ? [] : [`Transaction ${attempt.id} ${SAID[verdictOf(gate)]}.`];
  });
  const [first] = commits;
  if (first === undefined || said.length === 0) return FAILED_OVER;
  const detail = said.join(" ");
  const verdict = verdictOf(first);
  if (verdict === "lost") return { ...LOST, detail };
  if (verdict === "unknown" && first.attempt !== null) return { ...NOT_KNOWN, detail };
  return { ...FAILED_OVER, detail: `${FAILED_OVER.detail ?? ""} ${detail}` };
}
