// The input of the rules: each node's report of itself. The store's port extends NodeSource,
// because the rules need nothing else of a store.
import { type EpochId, type EpochRecord, type Offset } from "@highwater/protocol";

/** An operator's word that a node is the primary. */
export interface OperatorCommand {
  readonly id: string;
  /** Epochs outside the node's history that the operator knows of and gives up. */
  readonly overrules: readonly EpochId[];
}

/**
 * What one node says of itself. A report is evidence of the moment at which it was asked for, never
 * of later ones.
 */
export interface NodeReport {
  readonly node: string;
  readonly role: "primary" | "replica";
  /** Differs whenever the server was started anew. */
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
   * Everything at or below is on this node's disk. On a replica: of its own history, which need not
   * be the primary's.
   */
  readonly flushed: Offset;
  /** Primary: end of the log. Replica: what it has replayed. */
  readonly applied: Offset;
  /**
   * Why this node's disk must not be counted (for instance: it does not flush); null when it may.
   */
  readonly unfit: string | null;
  /**
   * The replica's own view of the stream that feeds it; `session` names one uninterrupted stream.
   */
  readonly upstream: { readonly session: string; readonly flushed: Offset } | null;
  /**
   * A stream feeds this replica now; what the primary shows under its name while none does is of an
   * earlier life.
   */
  readonly isFed: boolean;
  /** An operator's command that names this node as the primary and has not been carried out yet. */
  readonly command: OperatorCommand | null;
  readonly serverTimeMs: number;
}

/** The nodes, and how each is asked for its report. Every store is one. */
export interface NodeSource {
  readonly nodes: readonly { readonly id: string }[];
  /** Everything a node can say of itself. Rejects when it cannot be asked in time. */
  probe(node: string): Promise<NodeReport>;
}
