// What the console says of an epoch, everywhere in the same words.
import type { EpochCause } from "@highwater/protocol";

const CAUSES: Readonly<Record<EpochCause, string>> = {
  first: "the first epoch",
  clean_restart: "a clean restart",
  crash_recovery: "a restart after a crash",
  promotion: "a promotion",
  reinstated: "reinstated by an operator",
  restored: "a restored backup",
};

/** How an epoch began. A newer tracker may know more causes. */
export function causeText(cause: string): string {
  return (CAUSES as Readonly<Record<string, string>>)[cause] ?? cause.replaceAll("_", " ");
}

export function begunText(epoch: {
  readonly seq: number;
  readonly node: string;
  readonly cause: string;
}): string {
  return `Epoch ${String(epoch.seq)} has begun on ${epoch.node} (${causeText(epoch.cause)})`;
}
