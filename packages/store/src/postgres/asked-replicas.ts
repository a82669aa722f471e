// Replicas whose streams the primary's view cannot tell apart: each is asked itself what it has.
// A replica's word about its own positions would prove nothing, since a position is a number of any history. What it has
// *replayed* does: a witness's row can only have been written in its epoch, and says up to where that epoch's log is below
// it; and nothing is replayed that is not on the replica's disk. No stream has to be identified for that.
import { type ClientBase } from "pg";
import { type EpochId, type NodeSpec, type Offset } from "@highwater/protocol";
import { type Clock } from "../clock.ts";
import { parseLsn } from "./lsn.ts";
import { type RecognisedReplicas } from "./replica-streams.ts";
import { WITNESSED_BY_REPLICA } from "./sql.ts";

/** A node that could not be asked is left alone for so long. */
const RETRY_MS = 100;

interface Asked {
  readonly node: string;
  /** Null until it is known, or when the node is no replica, or does not flush. */
  proof: { readonly session: string; readonly epoch: EpochId; readonly reached: Offset } | null;
  isAsked: boolean;
  notBeforeMs: number;
}

export interface AskedReplicasOptions {
  readonly nodes: readonly NodeSpec[];
  readonly clock: Clock;
  readonly query: <T>(node: string, work: (client: ClientBase) => Promise<T>) => Promise<T>;
  /** Writes a witness's row on the primary and answers what it says. */
  readonly witness: (primary: string, epoch: EpochId) => Promise<Offset>;
}

export class AskedReplicas {
  readonly #options: AskedReplicasOptions;
  readonly #asked: readonly Asked[];
  #witnessed: { readonly epoch: EpochId; readonly reached: Offset } | null = null;
  #isWitnessing = false;

  constructor(options: AskedReplicasOptions) {
    this.#options = options;
    this.#asked = options.nodes
      .filter(({ replication }) => replication !== undefined && "ask" in replication)
      .map(({ id }) => ({ node: id, proof: null, isAsked: false, notBeforeMs: Number.NEGATIVE_INFINITY }));
  }

  get isEmpty(): boolean {
    return this.#asked.length === 0;
  }

  includes(node: string): boolean {
    return this.#asked.some((asked) => asked.node === node);
  }

  /**
   * What is proven by now. Never waits: a far replica must not hold up what the primary says of the near ones; its next
   * answer is in a later report. What was proven once stays true in its epoch.
   */
  report(primary: string, epoch: EpochId, wanted: Offset | null): RecognisedReplicas {
    const proven: RecognisedReplicas[number][] = [];
    let isLacking = false;
    for (const asked of this.#asked) {
      if (asked.node === primary) continue;
      const proof = asked.proof?.epoch === epoch ? asked.proof : null;
      if (proof !== null) proven.push({ node: asked.node, session: proof.session, flushed: proof.reached });
      isLacking ||= wanted !== null && (proof === null || proof.reached < wanted);
      void this.#ask(asked, epoch);
    }
    if (isLacking && wanted !== null) void this.#witness(primary, epoch, wanted);
    return proven;
  }

  async #ask(asked: Asked, epoch: EpochId): Promise<void> {
    const { clock, query } = this.#options;
    if (asked.isAsked || clock.monotonicMs() < asked.notBeforeMs) return;
    asked.isAsked = true;
    try {
      const answer = await query(asked.node, (client) => readProof(client, epoch));
      if (answer !== null) asked.proof = { ...answer, epoch };
      else if (asked.proof?.epoch !== epoch) asked.proof = null;
    } catch {
      asked.notBeforeMs = clock.monotonicMs() + RETRY_MS;
    } finally {
      asked.isAsked = false;
    }
  }

  /** Whoever committed has mostly done it already; a read, or a gateway that died, has not. Once for each `wanted`. */
  async #witness(primary: string, epoch: EpochId, wanted: Offset): Promise<void> {
    const done = this.#witnessed?.epoch === epoch ? this.#witnessed.reached : null;
    if (this.#isWitnessing || (done !== null && done >= wanted)) return;
    this.#isWitnessing = true;
    try {
      this.#witnessed = { epoch, reached: await this.#options.witness(primary, epoch) };
    } catch {
      // The next report tries again.
    } finally {
      this.#isWitnessing = false;
    }
  }
}

async function readProof(
  client: ClientBase,
  epoch: EpochId,
): Promise<{ session: string; reached: Offset } | null> {
  const [row] = (
    await client.query<{ in_recovery: boolean; started_at: string; fsync: string; reached: string | null }>({
      name: "witnessed_by_replica",
      text: WITNESSED_BY_REPLICA,
      values: [epoch],
    })
  ).rows;
  if (row === undefined || row.reached === null || !row.in_recovery || row.fsync !== "on") return null;
  // One life of one server: what it proves needs no stream that would have to be followed.
  return { session: `asked/${row.started_at}`, reached: parseLsn(row.reached) };
}
