// What an SDK client knows of a transaction when its call has ended.
import { type ClientReply } from "@highwater/checker";
import { type HighwaterError, type Transaction } from "@highwater/sdk";
import { shownBy } from "./schema.ts";
import { type Plan } from "./plan.ts";

export type Outcome = Pick<
  ClientReply,
  "outcome" | "durableAt" | "position" | "shown" | "replayed" | "error"
>;

export function ofTransaction(transaction: Transaction, plan: Plan): Outcome {
  const { results, position, replayed, state } = transaction;
  const isDurable = plan.ack === "durable" && state === "durable";
  return {
    outcome: "committed",
    durableAt: isDurable ? plan.level : null,
    position: { epoch: position.epoch, offset: position.offset },
    shown:
      results === null
        ? null
        : shownBy(
            plan.operations,
            results.map((result) => result.values),
          ),
    replayed,
    error: null,
  };
}

/** An error of the SDK or the service; both contain the outcome of the transaction. */
export function ofError(error: Pick<HighwaterError, "code" | "outcome">, plan: Plan): Outcome {
  return {
    outcome: outcomeOf(error, plan),
    durableAt: null,
    position: null,
    shown: null,
    replayed: false,
    error: error.code,
  };
}

function outcomeOf(
  { code, outcome }: Pick<HighwaterError, "code" | "outcome">,
  plan: Plan,
): ClientReply["outcome"] {
  if (code === "transaction_lost") return "lost";
  // An unanswered read leaves no effect to find.
  if (plan.readOnly) return "aborted";
  return outcome === "not_applied" ? "aborted" : "unknown";
}

const STRENGTH = ["aborted", "lost", "unknown", "committed"] as const;

/** Of two answers about one id, the one that says more; of two commits, the one with results. */
export function better(a: Outcome, b: Outcome): Outcome {
  const [first, second] = [STRENGTH.indexOf(a.outcome), STRENGTH.indexOf(b.outcome)];
  if (first !== second) return first > second ? a : b;
  return a.shown === null && b.shown !== null ? b : a;
}
