// Finds which of the primary's streams feeds which configured node. A position that is not certain
// is left out: a missing position makes nothing durable.
import { type NodeSpec, parseAddressRange, isInRange } from "@highwater/protocol";
import { type PositionsReport } from "../port.ts";
import { parseLsn } from "./lsn.ts";

/** A stream to a standby, as the primary shows it. */
export interface ReplicaStream {
  /** One life of one walsender. */
  readonly session: string;
  readonly flushed: string;
  /** At the same moment as the position; it may be another's at the next. */
  readonly isSynchronous: boolean;
  /** Null where it was not asked for, or the stream has none. */
  readonly address: string | null;
  readonly slot: string | null;
  readonly applicationName: string;
}

export type RecognisedReplicas = PositionsReport["replicas"];

interface Recogniser {
  readonly node: string;
  readonly matches: (stream: ReplicaStream) => boolean;
}

export class ReplicaStreams {
  /** Whether addresses and slots have to be asked for; names cost nothing more. */
  readonly needsSource: boolean;
  readonly #recognisers: readonly Recogniser[];

  constructor(nodes: readonly NodeSpec[]) {
    this.#recognisers = nodes.flatMap((node) => recogniserOf(node) ?? []);
    this.needsSource = nodes.some(
      ({ replication }) => replication !== undefined && ("address" in replication || "slot" in replication),
    );
  }

  /**
   * Two streams that match one node are left out, and so is one that matches two. `primary` follows
   * no node.
   */
  recognise(streams: readonly ReplicaStream[], primary: string): RecognisedReplicas {
    const found = new Map<string, ReplicaStream | null>();
    for (const stream of streams) {
      let owner: string | undefined;
      let isAmbiguous = false;
      for (const { node, matches } of this.#recognisers) {
        if (node === primary || !matches(stream)) continue;
        if (found.has(node)) found.set(node, null);
        isAmbiguous ||= owner !== undefined;
        owner = node;
        // Seen, whatever it is worth: a second stream of this node is one too many.
        if (!found.has(node)) found.set(node, stream);
      }
      if (isAmbiguous)
        for (const { node, matches } of this.#recognisers)
          if (node !== primary && matches(stream)) found.set(node, null);
    }
    const recognised: RecognisedReplicas[number][] = [];
    for (const [node, stream] of found)
      if (stream !== null) {
        const { session, flushed, isSynchronous } = stream;
        recognised.push({ node, session, flushed: parseLsn(flushed), synchronous: isSynchronous });
      }
    return recognised;
  }
}

function recogniserOf({ id, replication }: NodeSpec): Recogniser | null {
  if (replication === undefined) return { node: id, matches: (stream) => stream.applicationName === id };
  if ("ask" in replication) return null;
  const { applicationName, address, slot } = replication;
  const range = address === undefined ? null : parseAddressRange(address);
  if (address !== undefined && range === null)
    throw new Error(`node ${id}: ${address} is no range of addresses`);
  return {
    node: id,
    matches: (stream) =>
      (applicationName === undefined || stream.applicationName === applicationName) &&
      (slot === undefined || stream.slot === slot) &&
      (range === null || (stream.address !== null && isInRange(range, stream.address))),
  };
}
