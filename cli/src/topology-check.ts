// Checks a topology file by the rules of the services.
import { readFileSync } from "node:fs";
import { type Topology, topologyWarnings } from "@highwater/protocol";
import { Faults, parseTopology } from "@highwater/service";
import { type Call } from "./command.ts";
import { badInput, EXIT_REFUSED } from "./refusal.ts";

export function run({ given, print }: Call): Promise<number> {
  const path = given.only("file");
  if (path === null) throw badInput("name the topology file");
  const { topology, faults } = readTopology(path);
  const warnings = topology === null ? [] : topologyWarnings(topology);
  if (given.flag("json")) print(JSON.stringify({ valid: topology !== null, faults, warnings }, null, 2));
  else {
    for (const fault of faults) print(`fault: ${fault}`);
    for (const warning of warnings) print(`warning: ${warning}`);
    if (topology !== null) print(summary(path, topology));
  }
  return Promise.resolve(topology === null ? EXIT_REFUSED : 0);
}

export type ReadTopology =
  | { readonly topology: Topology; readonly faults: readonly string[] }
  | { readonly topology: null; readonly faults: readonly string[] };

/** Errors: Refusal, if there is no such file. */
export function readTopology(path: string): ReadTopology {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw badInput(`${path} cannot be read: ${String((cause as { code?: unknown }).code)}`);
  }
  try {
    return { topology: parseTopology(text), faults: [] };
  } catch (cause) {
    if (!(cause instanceof Faults)) throw cause;
    return { topology: null, faults: cause.faults };
  }
}

function summary(path: string, { nodes, levels }: Topology): string {
  const regions = new Set(nodes.map(({ region }) => region));
  return `${path}: ${String(nodes.length)} nodes in ${String(regions.size)} regions; levels ${Object.keys(levels).join(", ")}`;
}
