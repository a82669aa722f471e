// Where everything is, and how far from each other.
import { type Endpoint, type System } from "@highwater/lab-system";

/** Where the publishers are: beside the primary's region, but not lost with it. */
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

/**
 * Puts the publishers beside a region, and says under which addresses they reach the services of
 * all: those of their neighbour directly, those of the others over links as long as the
 * neighbour's.
 */
export async function endpointsBeside(system: System, neighbour: string): Promise<Endpoint[]> {
  for (const region of system.regions)
    await system.cluster.link(PUBLISHERS, region).setRoundTripMs(roundTripMs(neighbour, region));
  const all = await system.endpoints(PUBLISHERS);
  const nearest = {
    region: neighbour,
    gateway: system.gateway(neighbour).url,
    tracker: system.tracker(neighbour).url,
  };
  return [nearest, ...all.filter(({ region }) => region !== neighbour)];
}
