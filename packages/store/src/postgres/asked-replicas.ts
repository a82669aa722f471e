// Asks replicas for their own positions where the primary's view cannot say which stream feeds
// which replica. A replica's flush position proves nothing, because a position is a number in any
// history. The log that it has *replayed* does. A witness row was written in its epoch, and says up
// to where that epoch's log lies below it; and a replica replays only what is on its disk. So no
// stream has to be identified.
import { type ClientBase } from "pg";
import { type EpochId, type NodeSpec, type Offset } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type PositionsReport } from "../port.ts";
import { parseLsn } from "./lsn.ts";
import { type RecognisedReplicas } from "./replica-streams.ts";
import { WITNESSED_BY_REPLICA } from "./sql.ts";

/** A node that could not be asked is left alone for so long. */
const RETRY_MS = 100;
/**
 * The log never ends at a witness, and a reader's offset is the log's end: so often it is brought
 * below one.
 */
const BEAT_MS = 1_000;

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
  #witnessed: { readonly epoch: EpochId; readonly reached: Offset; readonly atMs: number } | null = null;
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
   * The position that is proven by now. Never waits: a far replica must not hold up what the
   * primary says of the near ones; its next answer is in a later report. A proof stays true in its
   * epoch.
   */
  report({ node: primary, epoch, applied }: PositionsReport, wanted: Offset | null): RecognisedReplicas {
    const proven: RecognisedReplicas[number][] = [];
    let isLacking = false;
    for (const asked of this.#asked) {
      if (asked.node === primary) continue;
      const proof = asked.proof?.epoch === epoch ? asked.proof : null;
      if (proof !== null) {
        const { session, reached } = proof;
        proven.push({ node: asked.node, session, flushed: reached, synchronous: false });
      }
      isLacking ||= wanted !== null && (proof === null || proof.reached < wanted);
      void this.#ask(asked, epoch);
    }
    const isWanted = isLacking && wanted !== null && wanted <= applied;
    if (!this.#isWitnessed(epoch, isWanted ? wanted : null)) void this.#witness(primary, epoch);
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

  #isWitnessed(epoch: EpochId, wanted: Offset | null): boolean {
    if (this.#witnessed?.epoch !== epoch) return false;
    const { reached, atMs } = this.#witnessed;
    if (wanted !== null && reached < wanted) return false;
    return this.#options.clock.monotonicMs() - atMs < BEAT_MS;
  }

  /**
   * The committing gateway has mostly done it already; for a read, or when its gateway died, it is
   * not done. One at a time.
   */
  async #witness(primary: string, epoch: EpochId): Promise<void> {
    if (this.#isWitnessing) return;
    this.#isWitnessing = true;
    const { clock, witness } = this.#options;
    try {
      this.#witnessed = { epoch, reached: await witness(primary, epoch), atMs: clock.monotonicMs() };
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
