// What a doctor's visit to a deployment finds out. The rules judge it; ask.ts gathers it.
import { type NodeReport } from "@highwater/authority";
import { type NodeSpec, type Topology } from "@highwater/protocol";
import { type ReplicaStream } from "@highwater/store";
import { type Receiver } from "../postgres.ts";

export interface Deployment {
  readonly topology: Topology;
  readonly nodes: readonly NodeFacts[];
  readonly gateways: number;
  /** Sessions that one gateway may open on a node. */
  readonly sessionsOfGateway: number;
  /** Faults of the variables that name the authority, and of levels that do not go with it. */
  readonly authorityFaults: readonly string[];
  readonly isLease: boolean;
  /** What the replay hold costs; null: the services hold no writes. */
  readonly replayHold: string | null;
}

export interface NodeFacts {
  readonly spec: NodeSpec;
  readonly server: Server | null;
  /** Why it could not be asked; null: it was. */
  readonly silent: string | null;
}

export interface Server {
  /** By the rules of the services. */
  readonly report: NodeReport;
  readonly versionNumber: number;
  readonly version: string;
  /** Of the log that it writes, or replays. */
  readonly timeline: number | null;
  readonly database: string;
  readonly settings: Readonly<Record<string, string>>;
  /** Changed in the files, and not in effect before a restart. */
  readonly pendingRestart: readonly string[];
  readonly hasChecksums: boolean;
  readonly role: ServiceRole;
  readonly application: Application | null;
  /** Whether the connection from here is encrypted. */
  readonly isEncrypted: boolean;
  readonly isLocal: boolean;
  readonly streams: readonly Stream[];
  readonly slots: readonly Slot[];
  readonly receiver: Receiver | null;
  /** The server's clock less the clock of this machine, and how far that may be wrong. */
  readonly clock: { readonly aheadMs: number; readonly uncertainMs: number };
}

export interface ServiceRole {
  readonly name: string;
  readonly isSuperuser: boolean;
  readonly monitors: boolean;
  readonly signals: boolean;
  readonly mayCreate: boolean;
  /** The groups of API keys that are missing. */
  readonly missingGroups: readonly string[];
  readonly ownsAuditLog: boolean;
  readonly ownsSequences: boolean;
  /** The function that advances sequences is that of an older version. */
  readonly hasOldSequences: boolean;
}

/** The role of `appUrl`. */
export interface Application {
  readonly name: string;
  /** Null: it can log in. */
  readonly refused: string | null;
  readonly isSuperuser: boolean;
  readonly isMember: boolean;
}

export interface Stream extends ReplicaStream {
  readonly state: string | null;
  /** Null: the server does not say. */
  readonly lagBytes: number | null;
  readonly isEncrypted: boolean;
  readonly isLocal: boolean;
}

export interface Slot {
  readonly name: string;
  readonly isActive: boolean;
  /** Of the log that the server keeps for it. */
  readonly keptBytes: number;
  readonly walStatus: string | null;
}

/** `danger`: promises may break, or are never kept. */
export type Severity = "danger" | "warning" | "note";

export interface Finding {
  readonly severity: Severity;
  /** Names the rule, for programs. */
  readonly check: string;
  /** Null: it is about the deployment. */
  readonly node: string | null;
  readonly says: string;
  /** The line to change; null: there is none. */
  readonly change: string | null;
}
