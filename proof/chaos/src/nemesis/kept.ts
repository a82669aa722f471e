// Derives from the positions before the election which promises a change of the primary keeps. The
// rule is that of the product's failover-candidate, written again: the checker must not share code
// with what it judges.

export type LevelRule =
  | { readonly primary: true }
  | { readonly replicas: number; readonly outside: "zone" | "region" }
  | { readonly regions: "all" };

export interface Candidate {
  readonly node: string;
  readonly region: string;
  readonly zone: string;
  /**
   * How far its log of the current history goes. Null if it was not read, or if the node may lack
   * log that it once had: a fresh or older copy that has not caught up, or another history.
   */
  readonly position: bigint | null;
}

export interface Election {
  /** The old primary and its location. */
  readonly primary: { readonly node: string; readonly region: string; readonly zone: string };
  /** Every other node of the system, read or not. */
  readonly others: readonly Candidate[];
  readonly promoted: string;
  /** The promoted node certainly has everything that the old primary ever had. */
  readonly isComplete: boolean;
}

/** Levels at which no durable transaction can be missing on the promoted node. */
export function keptLevels(levels: Readonly<Record<string, LevelRule>>, election: Election): string[] {
  const names = Object.keys(levels);
  if (election.isComplete) return names;
  return names.filter((name) => {
    const rule = levels[name];
    return rule !== undefined && isKept(rule, election);
  });
}

function isKept(rule: LevelRule, { primary, others, promoted }: Election): boolean {
  const position = others.find(({ node }) => node === promoted)?.position;
  // The primary's own disk was not read.
  if (position == null || "primary" in rule) return false;
  const domainOf = ({ region, zone }: { region: string; zone: string }): string =>
    "regions" in rule || rule.outside === "region" ? region : `${region}/${zone}`;
  const domains = new Map<string, Candidate[]>();
  for (const candidate of others) {
    const domain = domainOf(candidate);
    domains.set(domain, [...(domains.get(domain) ?? []), candidate]);
  }
  // A promise that counted the domain relied on one of its nodes, so all of their positions must be
  // known.
  const covered = [...domains].filter(([, nodes]) =>
    nodes.every((candidate) => candidate.position !== null && candidate.position <= position),
  );
  if ("regions" in rule) {
    // Every region had it, so one region whose nodes are all known is enough. The old primary was
    // not read.
    return covered.some(([domain]) => domain !== domainOf(primary));
  }
  const outside = [...domains.keys()].filter((domain) => domain !== domainOf(primary));
  const observed = covered.filter(([domain]) => domain !== domainOf(primary));
  return observed.length >= outside.length - rule.replicas + 1;
}
