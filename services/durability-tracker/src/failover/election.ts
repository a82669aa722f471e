// Decides whether a level's promise survives a choice: the answers that an election needs before it
// may promote the most advanced node that answered. Pure. It follows the level's own rule: distinct
// failure domains, each counted once, by its best node.
import { type LevelRule, type Offset } from "@highwater/protocol";
import { type StoreNode } from "@highwater/store";

/** Up to where a node can possibly have acknowledged; `unknown` where nothing bounds it. */
export type Bound = Offset | "nothing" | "unknown";

export interface ElectionFinding {
  /**
   * `kept`: whatever the silent nodes have, everything that the level has promised is on the chosen
   * node. `at_risk`: they may have acknowledged more. `not_covered`: the level does not survive a
   * change of the primary.
   */
  readonly promise: "kept" | "at_risk" | "not_covered";
  /** What the level counts: regions or zones, or single nodes. */
  readonly domain: "region" | "zone" | "node" | null;
  /** Those that can acknowledge, and of them those whose nodes have all answered. */
  readonly domains: readonly string[];
  readonly answered: readonly string[];
  /** How many of the domains have to answer: n - k + 1. */
  readonly needed: number;
}

export interface Election {
  readonly rule: LevelRule;
  readonly nodes: readonly StoreNode[];
  /** The node that was the primary; null when it is not configured any more. */
  readonly primary: StoreNode | null;
  readonly boundOf: (node: string) => Bound;
  readonly chosen: { readonly node: string; readonly position: Offset };
}

const KEYS = {
  zone: ({ region, zone }: StoreNode): string => `${region}/${zone}`,
  region: ({ region }: StoreNode): string => region,
  node: ({ id }: StoreNode): string => id,
};

/**
 * With k acknowledgements out of n domains the mark is at most the k-th largest of what the domains
 * can have. Of a domain that has not answered as a whole nothing is known, so fewer than k such
 * domains may be left: n - k + 1 have to answer. Then the mark is at most what one of the answering
 * nodes has, and the most advanced of them has it all.
 */
export function elect({ rule, nodes, primary, boundOf, chosen }: Election): ElectionFinding {
  if ("primary" in rule) {
    const promise = chosen.node === primary?.id ? "kept" : "not_covered";
    return { promise, domain: null, domains: [], answered: [], needed: 0 };
  }
  const all = "regions" in rule;
  // Which of the nodes were the synchronous ones is not asked here; any k of them can have been.
  const domain = all ? "region" : "synchronous" in rule ? "node" : rule.outside;
  const keyOf = KEYS[domain];
  const best = bestByDomain(nodes, keyOf, boundOf);
  if (!all && primary !== null) best.delete(keyOf(primary));
  const count = all ? best.size : "synchronous" in rule ? rule.synchronous : rule.replicas;
  const domains = [...best.keys()];
  const answered = domains.filter((key) => best.get(key) !== "unknown");
  const finding = { domain, domains, answered, needed: Math.max(0, domains.length - count + 1) } as const;
  // Without knowing where the primary was, it is unknown which of the domains did not count.
  if (!all && primary === null) return { ...finding, promise: "at_risk" };
  const highest = kthHighest([...best.values()], count);
  const isKept = highest === "nothing" || (highest !== "unknown" && highest <= chosen.position);
  return { ...finding, promise: isKept ? "kept" : "at_risk" };
}

function bestByDomain(
  nodes: readonly StoreNode[],
  keyOf: (node: StoreNode) => string,
  boundOf: (node: string) => Bound,
): Map<string, Bound> {
  const best = new Map<string, Bound>();
  for (const node of nodes) {
    const [key, bound] = [keyOf(node), boundOf(node.id)];
    const known = best.get(key);
    best.set(key, known === undefined || isAbove(bound, known) ? bound : known);
  }
  return best;
}

/** `nothing` is below every offset, `unknown` above. */
function isAbove(a: Bound, b: Bound): boolean {
  if (a === "nothing" || b === "unknown") return false;
  return a === "unknown" || b === "nothing" || a > b;
}

/**
 * The highest mark that k of the domains can have made; with fewer domains than k there never was
 * one.
 */
function kthHighest(bounds: readonly Bound[], k: number): Bound {
  const sorted = [...bounds].sort((a, b) => (isAbove(a, b) ? -1 : isAbove(b, a) ? 1 : 0));
  return sorted[k - 1] ?? "nothing";
}
