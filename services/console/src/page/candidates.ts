// What the promotion of each replica would lose, by the tracker's preview, and the commands for it.
// The shapes are those of POST /v1/durability/failover-preview. Pure.
import type { NodeRow } from "./metrics-text.ts";

export interface PreviewCandidate {
  readonly node: string;
  readonly offset: string;
  readonly bytes: string;
  readonly promises: readonly { readonly level: string; readonly from: string; readonly to: string }[];
  readonly transactions: number;
  readonly complete: boolean;
  readonly ids: readonly string[];
}

export interface Preview {
  readonly epoch: string;
  readonly follows: boolean;
  readonly end: string | null;
  readonly marks: Readonly<Record<string, string>>;
  readonly nodes: readonly { readonly node: string; readonly position: string }[];
  readonly undecided: number;
  readonly candidates: readonly PreviewCandidate[];
}

/** The request for every replica whose position the tracker has counted. */
export function candidatesOf(
  { nodes }: Pick<Preview, "nodes">,
  primary: string,
): { node: string; offset: string }[] {
  return nodes
    .filter(({ node }) => node !== primary)
    .map(({ node, position }) => ({ node, offset: position }));
}

/** The most advanced first; among equals in the order of their names. */
export function rank(candidates: readonly PreviewCandidate[]): PreviewCandidate[] {
  return [...candidates].sort((one, other) => {
    const [first, second] = [BigInt(one.offset), BigInt(other.offset)];
    if (first !== second) return first > second ? -1 : 1;
    return one.node < other.node ? -1 : 1;
  });
}

/** Names are letters, digits, '-' and '_': nothing to quote. */
export function candidateCommand(tracker: string): string {
  return `highwater failover candidate --tracker ${tracker} --list 20`;
}

export interface Step {
  readonly text: string;
  readonly command: string | null;
}

/** By hand, where no HA manager promotes. */
export function promotionSteps(
  node: string,
  { primary, authority }: { primary: string; authority: string },
): Step[] {
  if (authority === "lease")
    return [{ text: `The HA manager promotes, not you. Make it choose ${node}.`, command: null }];
  const values = `('${node}', 'failover from ${primary}', '{}')`;
  return [
    {
      text: `Make sure that ${primary} is off and stays off: anything that it accepts from now on is lost.`,
      command: null,
    },
    { text: `On ${node}, promote it:`, command: "SELECT pg_promote();" },
    {
      text: `On ${node}, as Highwater's service role, name it as the primary. If the command above lists epochs to overrule, put them between the braces:`,
      command: `SET synchronous_commit = local; INSERT INTO highwater.authority_command (node, reason, overrules) VALUES ${values};`,
    },
  ];
}

/** Replicas that the tracker cannot judge, because it has counted no position of them. */
export function unjudged(rows: readonly NodeRow[], candidates: readonly PreviewCandidate[]): NodeRow[] {
  return rows.filter(({ node, isPrimary }) => !isPrimary && !candidates.some((one) => one.node === node));
}
