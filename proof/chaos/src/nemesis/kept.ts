// Which promises a change of the primary keeps, from what its election has heard. The same rule as the product's
// failover-candidate gives, written again and apart from it: whoever judges must not borrow from the judged.

export type LevelRule =
  | { readonly primary: true }
  | { readonly replicas: number; readonly outside: "zone" | "region" }
  | { readonly regions: "all" };

export interface Candidate {
  readonly node: string;
  readonly region: string;
  readonly zone: string;
  /**
   * How far its log of the reigning history goes; null if it was not heard, or if it may have less than it once had there:
   * a fresh or older copy that has not caught up, or a log of another history.
   */
  readonly position: bigint | null;
}

export interface Election {
  /** Where the old primary was. */
  readonly primary: { readonly node: string; readonly region: string; readonly zone: string };
  /** Every other node of the system, heard or not. */
  readonly others: readonly Candidate[];
  readonly promoted: string;
  /** It is known that the promoted node has everything that the old primary ever had. */
  readonly isComplete: boolean;
}

/** Levels at which nothing that was durable can be missing on the promoted node. */
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
  // The primary's own disk has not been asked.
  if (position == null || "primary" in rule) return false;
  const domainOf = ({ region, zone }: { region: string; zone: string }): string =>
    "regions" in rule || rule.outside === "region" ? region : `${region}/${zone}`;
  const domains = new Map<string, Candidate[]>();
  for (const candidate of others) {
    const domain = domainOf(candidate);
    domains.set(domain, [...(domains.get(domain) ?? []), candidate]);
  }
  // A promise that counted the domain has been heard there by one of its nodes, so all of them have to be known.
  const covered = [...domains].filter(([, nodes]) =>
    nodes.every((candidate) => candidate.position !== null && candidate.position <= position),
  );
  if ("regions" in rule) {
    // Every region has had it, so one that is known as a whole is enough. The old primary's own node was not heard.
    return covered.some(([domain]) => domain !== domainOf(primary));
  }
  const outside = [...domains.keys()].filter((domain) => domain !== domainOf(primary));
  const observed = covered.filter(([domain]) => domain !== domainOf(primary));
  return observed.length >= outside.length - rule.replicas + 1;
}
