// Builders of node reports for the tests of every package.
import type { EpochId, EpochRecord, Offset } from "@highwater/protocol";
import type { NodeReport } from "../src/nodes.ts";

/** The report of a primary on which the last of the epochs is current. */
export function nodeReport(
  node: string,
  epochs: readonly EpochRecord[],
  over: Partial<NodeReport> = {},
): NodeReport {
  return {
    node,
    role: "primary",
    incarnation: node,
    prepared: true,
    epochs,
    current: (epochs.at(-1)?.id ?? null) as EpochId | null,
    flushed: 1n as Offset,
    applied: 1n as Offset,
    unfit: null,
    upstream: null,
    isFed: false,
    command: null,
    serverTimeMs: 0,
    ...over,
  };
}
