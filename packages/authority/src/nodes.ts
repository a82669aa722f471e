// The input of the rules: each node's report about itself. The store's port extends NodeSource; the
// rules use nothing else of a store.
import { type EpochId, type EpochRecord, type Offset } from "@highwater/protocol";

/** An operator's command that makes a node the primary. */
export interface OperatorCommand {
  readonly id: string;
  /** Epochs outside the node's history that the operator knows and gives up. */
  readonly overrules: readonly EpochId[];
}

/** A node's report about itself. It is evidence for the moment of the question, never for later. */
export interface NodeReport {
  readonly node: string;
  readonly role: "primary" | "replica";
  /** Changes with every start of the server. */
  readonly incarnation: string;
  /** The service's tables exist on the node. */
  readonly prepared: boolean;
  /** Epoch records in this node's history, oldest first. */
  readonly epochs: readonly EpochRecord[];
  /**
   * The epoch that this primary is in; null on a replica, and on a primary whose epoch is not
   * minted yet.
   */
  readonly current: EpochId | null;
  /**
   * Everything up to this offset is on the node's disk. A replica's offset is in its own history,
   * which may differ from the primary's.
   */
  readonly flushed: Offset;
  /** Primary: end of the log. Replica: what it has replayed. */
  readonly applied: Offset;
  /**
   * Why this node's disk must not be counted, for instance because it does not flush; null when it
   * may.
   */
  readonly unfit: string | null;
  /**
   * The replica's own view of the stream that feeds it; `session` names one uninterrupted stream.
   */
  readonly upstream: { readonly session: string; readonly flushed: Offset } | null;
  /**
   * A stream feeds this replica now. Without one, the row that the primary shows under the
   * replica's name is left from an earlier stream.
   */
  readonly isFed: boolean;
  /** An operator's command that names this node as the primary and has not been carried out yet. */
  readonly command: OperatorCommand | null;
  readonly serverTimeMs: number;
  /**
   * For so long at most gateways admit no write in the current epoch, because lost transactions are
   * brought back first. Absent or null: they do.
   */
  readonly heldMs?: number | null;
}

/** The nodes, and how to ask each for its report. Every store implements it. */
export interface NodeSource {
  readonly nodes: readonly { readonly id: string }[];
  /** Asks one node for its report. Rejects when the node does not answer in time. */
  probe(node: string): Promise<NodeReport>;
}
