// Where everything is, and how far from each other.
import { type Cluster } from "@highwater/dev-system";

/** Where the publishers are: beside the primary, but in no region that could be lost with it. */
export const PUBLISHERS = "publishers";

/** Round trips in milliseconds. */
const ROUND_TRIPS: readonly (readonly [string, string, number])[] = [
  ["us-east", "us-central", 30],
  ["us-east", "us-west", 62],
  ["us-east", "eu-west", 76],
  ["us-central", "us-west", 36],
  ["us-central", "eu-west", 102],
  ["us-west", "eu-west", 138],
];

function roundTripMs(a: string, b: string): number {
  return ROUND_TRIPS.find(([from, to]) => (from === a && to === b) || (from === b && to === a))?.[2] ?? 0;
}

/** For a cluster's options. */
export function roundTrips(): Record<string, number> {
  return Object.fromEntries(ROUND_TRIPS.map(([a, b, ms]) => [`${a}/${b}`, ms]));
}

/** Puts the publishers beside a region: no delay to it, and its delays to the others. */
export async function placePublishers(cluster: Cluster, beside: string): Promise<void> {
  const regions = new Set(cluster.nodes.map(({ region }) => region));
  for (const region of regions)
    await cluster.link(PUBLISHERS, region).setRoundTripMs(roundTripMs(beside, region));
}
