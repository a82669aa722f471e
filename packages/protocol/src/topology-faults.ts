// Faults of a topology that its schema cannot see, such as nodes that look the same to a tracker,
// or levels that cannot be reached. Reports all faults at once, so that an operator corrects them
// once.
import { type AddressRange, contains, parseAddressRange } from "./address-range.ts";
import { type LevelRule, type NodeSpec, type Topology } from "./topology.ts";

/** Every fault; none means that the services can start. */
export function topologyFaults(topology: Topology): string[] {
  return [...nodeFaults(topology.nodes), ...levelFaults(topology)];
}

/** What works and is probably not meant: for the log, at the start. */
export function topologyWarnings(topology: Topology): string[] {
  const regions = new Set(topology.nodes.map((node) => node.region));
  return Object.entries(topology.levels).flatMap(([level, rule]) =>
    "regions" in rule && regions.size === 1
      ? [
          `level ${level} requires every region, and there is only one: it covers no more than the primary's disk`,
        ]
      : [],
  );
}

/**
 * The failure domain of a node. Zones are called alike in many regions, so the region is part of a
 * zone's name.
 */
export function failureDomain(site: { region: string; zone: string }, kind: "zone" | "region"): string {
  return kind === "region" ? site.region : `${site.region}/${site.zone}`;
}

function levelFaults({ nodes, levels }: Topology): string[] {
  return Object.entries(levels).flatMap(([level, rule]) => {
    const faults: string[] = [];
    if (/^[0-9]+$/.test(level))
      faults.push(
        `level ${level}: a name of digits only would lose its position in the order of levels; use letters`,
      );
    const unreachable = whyUnreachable(rule, nodes);
    return unreachable === null ? faults : [...faults, `level ${level} can never be reached: ${unreachable}`];
  });
}

/**
 * Whichever node is the primary, its own domain is one of all, and does not count: what can be
 * reached does not depend on who it is. `primary` and `regions: all` can always be: every region
 * has a node.
 */
function whyUnreachable(rule: LevelRule, nodes: readonly NodeSpec[]): string | null {
  if ("synchronous" in rule) return whyNeverSynchronous(rule.synchronous, nodes);
  if (!("replicas" in rule)) return null;
  const { replicas, outside } = rule;
  const others = new Set(nodes.map((node) => failureDomain(node, outside))).size - 1;
  if (others >= replicas) return null;
  const such = (count: number): string => `${String(count)} ${outside}${count === 1 ? "" : "s"}`;
  return `it needs replicas in ${such(replicas)} besides the primary's, and the topology has ${such(others)}`;
}

/**
 * Which of its streams are synchronous the primary alone can say, so a replica that is asked itself
 * never counts.
 */
function whyNeverSynchronous(count: number, nodes: readonly NodeSpec[]): string | null {
  const shown = nodes.filter(({ replication }) => replication === undefined || !("ask" in replication));
  const others = shown.length === nodes.length ? nodes.length - 1 : shown.length;
  if (others >= count) return null;
  return `it needs ${String(count)} synchronous standby${count === 1 ? "" : "s"} that the primary reports, and there can be ${String(others)}`;
}

function nodeFaults(nodes: readonly NodeSpec[]): string[] {
  const faults: string[] = [];
  const ids = new Set<string>();
  const addresses = new Map<string, string>();
  for (const { id, url, replication } of nodes) {
    if (ids.has(id)) faults.push(`node ${id} is configured twice`);
    const address = serverOf(url);
    const same = address === null || ids.has(id) ? undefined : addresses.get(address);
    if (same !== undefined)
      faults.push(`nodes ${same} and ${id} have the same address; list each server once`);
    ids.add(id);
    if (address !== null && same === undefined) addresses.set(address, id);
    if (replication !== undefined && "address" in replication && replication.address !== undefined)
      if (parseAddressRange(replication.address) === null)
        faults.push(
          `node ${id}: ${replication.address} is neither an IP address nor a range such as 10.1.2.0/24`,
        );
  }
  return [...faults, ...indistinguishable(nodes)];
}

/** Where a connection string leads; null when the string alone does not say. */
function serverOf(url: string): string | null {
  if (!URL.canParse(url)) return null;
  const { hostname, port, pathname, searchParams } = new URL(url);
  const host = (searchParams.get("host") ?? hostname).toLowerCase();
  if (host === "") return null;
  // Behind some proxies the name of the database selects the server.
  return `${host}:${searchParams.get("port") ?? (port === "" ? "5432" : port)}${pathname}`;
}

interface Criteria {
  readonly applicationName: string | undefined;
  readonly range: AddressRange | null | undefined;
  readonly slot: string | undefined;
}

/** What a stream must be like to be the node's; null when the node itself is asked instead. */
function criteriaOf({ id, replication }: NodeSpec): Criteria | null {
  if (replication === undefined) return { applicationName: id, range: undefined, slot: undefined };
  if ("ask" in replication) return null;
  const { applicationName, address, slot } = replication;
  return { applicationName, range: address === undefined ? undefined : parseAddressRange(address), slot };
}

/**
 * A stream that matches two nodes counts for neither: a node whose every stream matches another's
 * could never count.
 */
function indistinguishable(nodes: readonly NodeSpec[]): string[] {
  const faults: string[] = [];
  for (const [at, one] of nodes.entries())
    for (const [other_, other] of nodes.entries()) {
      if (at === other_ || one.id === other.id) continue;
      const [narrow, wide] = [criteriaOf(one), criteriaOf(other)];
      if (narrow === null || wide === null || !isWithin(narrow, wide)) continue;
      // Two that are alike are reported once.
      if (isWithin(wide, narrow) && at > other_) continue;
      faults.push(
        `the streams of nodes ${one.id} and ${other.id} are indistinguishable: set a different replication.applicationName, address or slot`,
      );
    }
  return faults;
}

/** Every stream of `narrow` is one of `wide` as well. */
function isWithin(narrow: Criteria, wide: Criteria): boolean {
  if (wide.applicationName !== undefined && wide.applicationName !== narrow.applicationName) return false;
  if (wide.slot !== undefined && wide.slot !== narrow.slot) return false;
  if (wide.range === undefined) return true;
  return wide.range !== null && narrow.range != null && contains(wide.range, narrow.range);
}
