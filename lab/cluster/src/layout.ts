// Turns ClusterOptions into a checked list of nodes. Pure.

import { DevClusterError } from "./errors.ts";
import type { ClusterOptions, NodeOptions } from "./types.ts";

export interface PlannedNode {
  id: string;
  region: string;
  zone: string;
  port: number | undefined;
}

const defaultNodes: readonly NodeOptions[] = [
  { id: "us-east", region: "us-east" },
  { id: "us-west", region: "us-west" },
  { id: "eu-west", region: "eu-west" },
];

export function planNodes(options: ClusterOptions): PlannedNode[] {
  const nodes = options.nodes ?? defaultNodes;
  if (nodes.length === 0) throw badOption("a cluster needs at least one node");
  const planned = nodes.map((node) => {
    // The id becomes a file name, cluster_name and application_name, which are not all quoted.
    if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$/.test(node.id)) throw badOption(`not a node id: "${node.id}"`);
    if (!/^[^/]+$/.test(node.region)) throw badOption(`not a region: "${node.region}"`);
    const { port } = node;
    if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65_536))
      throw badOption(`not a port: ${port} (node ${node.id})`);
    return { id: node.id, region: node.region, zone: node.zone ?? `${node.region}-a`, port };
  });
  const ids = new Set(planned.map((node) => node.id));
  if (ids.size < planned.length) throw badOption("two nodes have the same id");
  const ports = planned.flatMap((node) => node.port ?? []);
  if (new Set(ports).size < ports.length) throw badOption("two nodes have the same port");
  for (const [pair, ms] of Object.entries(options.roundTripMs ?? {})) {
    if (pair.split("/").length !== 2) throw badOption(`roundTripMs: "${pair}" is not "location/location"`);
    checkRoundTrip(ms);
  }
  return planned;
}

export function checkRoundTrip(ms: number): void {
  if (!(Number.isFinite(ms) && ms >= 0)) throw badOption(`not a round trip in milliseconds: ${ms}`);
}

function badOption(message: string): DevClusterError {
  return new DevClusterError("BAD_OPTION", message);
}
