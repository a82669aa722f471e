// Where the nodes are: from the options, from a person, or as proposed.
import { badInput } from "../refusal.ts";
import { NAME } from "./given-servers.ts";
import { type PlannedNode } from "./plan.ts";

export interface Place {
  readonly region: string;
  readonly zone: string;
}

/** Any text of this length. */
const ZONE = /^[^/]{1,63}$/;
/** As the large clouds call their regions, alone or in a host's name. */
const CLOUD_REGION = /(?<![a-z0-9])(?:us|eu|ap|sa|ca|me|af|il|mx)(?:-gov)?-[a-z]+-?[0-9](?![0-9])/;
/** Nodes of one region without zones share one: that promises less, and never too much. */
const DEFAULT_ZONE = "a";

export interface PlaceOptions {
  readonly given: readonly string[];
  readonly takesProposals: boolean;
  readonly ask: ((question: string) => Promise<string>) | null;
  readonly note: (text: string) => void;
}

/** By node id. Errors: Refusal. */
export async function placeNodes(
  nodes: readonly PlannedNode[],
  { given, takesProposals, ask, note }: PlaceOptions,
): Promise<Map<string, Place>> {
  const places = readPlaces(given, nodes);
  const missing = nodes.filter(({ id }) => !places.has(id));
  if (missing.length === 0) return places;
  if (takesProposals) {
    for (const node of missing) places.set(node.id, proposalOf(node));
    return places;
  }
  if (ask === null)
    throw badInput(
      "say where each node is: a region is what fails together, so a wrong one makes wrong promises. Proposed, from the names:",
      `  ${missing.map((node) => `--region ${node.id}=${proposalOf(node).region}`).join(" ")}`,
    );
  note(
    "A region is what fails together: a data centre, a cloud's region. REGION/ZONE also names a zone in it.",
  );
  for (const node of missing) places.set(node.id, await askPlace(node, ask, note));
  return places;
}

function readPlaces(given: readonly string[], nodes: readonly PlannedNode[]): Map<string, Place> {
  const places = new Map<string, Place>();
  const faults: string[] = [];
  for (const text of given) {
    const at = text.indexOf("=");
    const id = text.slice(0, Math.max(at, 0));
    const place = parsePlace(text.slice(at + 1));
    if (at < 0 || place === null)
      faults.push(
        `--region ${text} is not NODE=REGION or NODE=REGION/ZONE, with small letters, digits, "-" and "_" in the region`,
      );
    else if (!nodes.some((node) => node.id === id))
      faults.push(
        `--region ${text}: there is no node ${id}. The nodes are ${nodes.map((node) => node.id).join(", ")}`,
      );
    else places.set(id, place);
  }
  if (faults.length > 0) throw badInput(...faults);
  return places;
}

function parsePlace(text: string): Place | null {
  const [region = "", zone = DEFAULT_ZONE, ...more] = text.split("/");
  return NAME.test(region) && ZONE.test(zone) && more.length === 0 ? { region, zone } : null;
}

function proposalOf({ id, server }: PlannedNode): Place {
  const found = CLOUD_REGION.exec(server.address) ?? CLOUD_REGION.exec(id);
  return { region: found?.[0] ?? id, zone: DEFAULT_ZONE };
}

async function askPlace(
  node: PlannedNode,
  ask: (question: string) => Promise<string>,
  note: (text: string) => void,
): Promise<Place> {
  const proposal = proposalOf(node);
  for (;;) {
    const answer = (await ask(`Region of ${node.id} (${node.server.address}) [${proposal.region}]: `)).trim();
    const place = answer === "" ? proposal : parsePlace(answer);
    if (place !== null) return place;
    note("A region has small letters, digits, “-” and “_” alone.");
  }
}
