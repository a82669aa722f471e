// The reference adapter of the store port, for simulation only: a MemoryWorld that the caller
// steps, and one store for each simulated process. Everything happens inside the call; promises
// only deliver the result.
import { type NodeReport } from "@highwater/authority";
import {
  type EpochId,
  type EpochRecord,
  HighwaterError,
  type Offset,
  type TxnId,
  txnTimestampMs,
} from "@highwater/protocol";
import { type Change, receiptName } from "./memory/history.ts";
import { mintEpoch } from "./memory/mint.ts";
import { type MemoryNode } from "./memory/node.ts";
import { MemoryTransaction } from "./memory/open-transaction.ts";
import { isSlow, run } from "./memory/statements.ts";
import { type MemoryWorld } from "./memory/world.ts";
import {
  type Execution,
  type KeyCheck,
  type LockFlood,
  type MintRequest,
  type Opening,
  type PoolReport,
  type PositionsReport,
  type ReceiptKey,
  type ReceiptsAsOf,
  type ReceiptState,
  type ReplicaRead,
  type ReplicaReading,
  type RetentionReport,
  type SettleRequest,
  type Store,
  type StoreNode,
  type TransactionSpec,
  type Witness,
} from "./port.ts";

export { MemoryEventLog, MemoryEvents } from "./memory/events.ts";
export { type MemorySnapshot } from "./memory/node.ts";
export { type Call, type Delivery, MemoryWorld, type MemoryWorldOptions } from "./memory/world.ts";

/** Receipts can be written this many retentions ahead of the server's clock. */
const AHEAD = 2;

export interface MemoryStoreOptions {
  readonly world: MemoryWorld;
  /** Name of the process that this store belongs to. */
  readonly helper: string;
}

export class MemoryStore implements Store {
  readonly nodes: readonly StoreNode[];
  readonly countsBytes = true;
  readonly commitsDurably = false;
  readonly wire = null;
  readonly #world: MemoryWorld;
  readonly #helper: string;
  /** How often the sessions to a node were dropped: none survives that. */
  readonly #sessions = new Map<string, number>();
  readonly #givenUp = new Map<string, string>();

  constructor(options: MemoryStoreOptions) {
    this.#world = options.world;
    this.#helper = options.helper;
    this.nodes = options.world.nodes;
  }

  /** Runs `work` inside the call; what the caller learns of it is the world's to decide. */
  async #call<T>(node: string, verb: string, work: (node: MemoryNode) => T | Promise<T>): Promise<T> {
    const found = this.#world.node(node);
    const delivery = this.#world.delivery({ helper: this.#helper, node, verb });
    if (!found.isUp || delivery === "unreachable") throw new Unreachable(node);
    const answer = await work(found);
    if (delivery === "answer_lost") throw new AnswerLost(node);
    return answer;
  }

  prepare(node: string): Promise<void> {
    return this.#call(node, "prepare", (on) => {
      requirePrimary(on);
      if (on.history.prepared) return;
      const nowMs = this.#world.wallMs();
      const expiredBeforeMs = nowMs - this.#world.retentionMs;
      on.append([{ kind: "prepared" }, { kind: "window", expiredBeforeMs, ceilingMs: this.#ceilingMs() }]);
      on.flush();
    });
  }

  probe(node: string): Promise<NodeReport> {
    return this.#call(node, "probe", (on) => {
      const { history, role } = on;
      const stream = this.#world.streamOf(node);
      const isPrimary = role === "primary";
      const newest = history.newest?.record.id;
      return {
        node,
        role,
        incarnation: on.incarnation,
        prepared: history.prepared,
        epochs: history.epochs.map(({ record }) => record),
        current: isPrimary && on.epoch === newest ? on.epoch : null,
        flushed: !isPrimary && on.junkEnd > on.flushed ? on.junkEnd : on.flushed,
        applied: on.applied,
        unfit: on.unfit,
        isFed: !isPrimary && stream !== null,
        upstream: isPrimary || stream === null ? null : { session: stream.session, flushed: stream.flushed },
        command: isPrimary ? history.pendingCommand(node) : null,
        serverTimeMs: this.#world.wallMs(),
      };
    });
  }

  witnessOf(node: string, epoch: EpochId): Promise<Witness | null> {
    return this.#call(node, "witnessOf", (on) => {
      const reached = on.history.witnessOf(epoch);
      if (reached === null) return null;
      return { reached, seenBy: on.end, marks: on.history.witnessedMarks(epoch) };
    });
  }

  positions(node: string): Promise<PositionsReport | null> {
    return this.#call(node, "positions", (on) => {
      requirePrimary(on);
      if (on.epoch === null) return null;
      const replicas = this.nodes.flatMap(({ id }) => {
        const stream = this.#world.streamOf(id);
        if (stream?.upstream !== node) return [];
        const { session, flushed } = stream;
        return [{ node: id, session, flushed, synchronous: this.#world.isSynchronous(id, node) }];
      });
      return { node, epoch: on.epoch, flushed: on.flushed, applied: on.end, replicas };
    });
  }

  mint(node: string, request: MintRequest): Promise<EpochRecord> {
    return this.#call(node, "mint", (on) => {
      const id = this.#world.newUuid() as EpochId;
      return mintEpoch(on, request, { id, wallMs: this.#world.wallMs() });
    });
  }

  /** The world logs everything. */
  unloggedTables(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  /** The world has no limit of locks. */
  endLockFloods(): Promise<readonly LockFlood[]> {
    return Promise.resolve([]);
  }

  /** The world has no notifications. */
  notificationQueueUsage(): Promise<number> {
    return Promise.resolve(0);
  }

  disownEpoch(node: string, epoch: EpochId): Promise<void> {
    return this.#call(node, "disownEpoch", (on) => {
      requirePrimary(on);
      if (on.sentinel?.epoch === epoch) on.sentinel = { ...on.sentinel, isDisowned: true };
    });
  }

  raiseFinalMarks(node: string, epoch: EpochId, marks: Readonly<Record<string, string>>): Promise<void> {
    return this.#call(node, "raiseFinalMarks", (on) => {
      requirePrimary(on);
      on.append([{ kind: "marks_raised", epoch, marks }]);
      on.flush();
    });
  }

  roleFaults(node: string): Promise<readonly string[]> {
    return this.#call(node, "roleFaults", () => []);
  }

  /** There are no sessions of clients. */
  endSession(node: string): Promise<void> {
    return this.#call(node, "endSession", () => undefined);
  }

  keyChecks(node: string): Promise<readonly KeyCheck[]> {
    return this.#call(node, "keyChecks", () => [...this.#world.keyChecks.values()]);
  }

  addKeyChecks(node: string, checks: readonly KeyCheck[]): Promise<void> {
    return this.#call(node, "addKeyChecks", (on) => {
      requirePrimary(on);
      const { keyChecks } = this.#world;
      for (const check of checks) if (!keyChecks.has(check.kid)) keyChecks.set(check.kid, check);
    });
  }

  async execute(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Execution> {
    if (signal?.aborted === true) throw new HighwaterError("cancelled", {}, { cause: signal.reason });
    const inDoubt = (cause: unknown): HighwaterError =>
      new HighwaterError(
        spec.readOnly ? "primary_unavailable" : "commit_unconfirmed",
        { transactionId: spec.id },
        { cause },
      );
    try {
      const outcome = await this.#call(node, "execute", (on) => this.#execute(on, spec));
      return "wait" in outcome
        ? await outcome.wait.catch((cause: unknown) => Promise.reject(inDoubt(cause)))
        : outcome;
    } catch (cause) {
      if (cause instanceof Unreachable) throw new HighwaterError("primary_unavailable", {}, { cause });
      throw cause instanceof AnswerLost ? inDoubt(cause) : cause;
    }
  }

  #execute(on: MemoryNode, spec: TransactionSpec): Execution | { readonly wait: Promise<Execution> } {
    if (on.role !== "primary") throw new HighwaterError("primary_unavailable", { transactionId: spec.id });
    spec.onBeforeSend?.();
    if (!spec.readOnly) {
      const settled = this.#admitReceipt(on, spec);
      if (settled !== null) return settled;
      on.limitMs = Math.max(on.limitMs, spec.limitMs ?? 0);
    } else if (on.epoch !== spec.epoch) throw new HighwaterError("epoch_changed", { transactionId: spec.id });
    const { changes, results } = run(on.history.rows, spec);
    const commit = (): Execution => {
      if (!spec.readOnly) {
        const { epoch, digest } = spec;
        const receipt = { kind: "commit", epoch, digest } as const;
        on.append([...changes, { kind: "receipt", key: spec, receipt }]);
        this.#world.afterCommit(on.spec.id);
      }
      return { kind: "committed", offset: on.end, exact: false, results };
    };
    if (!isSlow(spec.statements)) return commit();
    const wait = new Promise<Execution>((resolve, reject) => {
      const beganMs = this.#world.wallMs();
      on.open.set(receiptName(spec), { helper: this.#helper, beganMs, commit, client: { resolve, reject } });
    });
    return { wait };
  }

  /**
   * What the receipt's insert would answer, in the order in which a server checks it; null when it
   * goes in.
   */
  #admitReceipt(on: MemoryNode, spec: TransactionSpec): Execution | null {
    const state = stateOf(on, spec);
    if (state.kind === "expired") throw new HighwaterError("id_expired", { transactionId: spec.id });
    if (state.kind === "out_of_window")
      throw new HighwaterError("id_out_of_window", { transactionId: spec.id });
    if (on.epoch !== spec.epoch) throw new HighwaterError("epoch_changed", { transactionId: spec.id });
    if (state.kind !== "absent") return { kind: "already_settled" };
    if (on.open.has(receiptName(spec)))
      throw new HighwaterError("transaction_in_progress", { transactionId: spec.id, retryAfterMs: 1_000 });
    return null;
  }

  async begin(node: string, spec: TransactionSpec): Promise<Opening> {
    // Of a commit alone.
    const { onBeforeSend: _, ...body } = spec;
    const opened = this.#call(node, "begin", async (on): Promise<Opening> => {
      if (on.role !== "primary") throw new HighwaterError("primary_unavailable", { transactionId: spec.id });
      if (!spec.readOnly && this.#admitReceipt(on, spec) !== null) return { kind: "already_settled" };
      if (on.epoch !== spec.epoch) throw new HighwaterError("epoch_changed", { transactionId: spec.id });
      const { incarnation } = on;
      const sessions = this.#sessions.get(node);
      const transaction = new MemoryTransaction({
        id: spec.id,
        holder: this.#helper,
        evaluate: (statements) => run(on.history.rows, { ...spec, statements }).results,
        commit: (statements, { signal, onBeforeSend }) =>
          this.execute(node, { ...body, statements, ...(onBeforeSend && { onBeforeSend }) }, signal),
        isLost: () =>
          !on.isUp ||
          on.incarnation !== incarnation ||
          on.epoch !== spec.epoch ||
          this.#sessions.get(node) !== sessions,
      });
      return { kind: "open", transaction, results: await transaction.run(spec.statements) };
    });
    return opened.catch((cause: unknown) => {
      if (cause instanceof Unreachable) throw new HighwaterError("primary_unavailable", {}, { cause });
      if (cause instanceof AnswerLost)
        throw new HighwaterError("transaction_aborted", { transactionId: spec.id }, { cause });
      throw cause;
    });
  }

  readReplica(node: string, read: ReplicaRead): Promise<ReplicaReading> {
    return this.#call(node, "readReplica", (on): ReplicaReading => {
      const { newest } = on.history;
      const isFed = on.role === "replica" && this.#world.streamOf(node) !== null;
      // Fed from another timeline than the newest epoch's, its log runs on over what that epoch may
      // have lost.
      if (!isFed || newest?.timeline !== on.timeline) return { kind: "behind" };
      if (read.after !== null && !hasInHistory(on, read.after)) return { kind: "behind" };
      const { record } = newest;
      const { results } = run(on.history.rows, { ...read, id: record.id as TxnId, readOnly: true });
      const position = { epoch: record.id as EpochId, offset: on.applied };
      return { kind: "read", results, position, ageMs: null };
    });
  }

  helpFlush(node: string, epoch: EpochId, marks: Witness["marks"] = {}): Promise<Offset> {
    return this.#call(node, "helpFlush", (on) => {
      if (on.epoch !== epoch) throw new HighwaterError("epoch_changed");
      const reached = on.end;
      on.append([{ kind: "witness", helper: this.#helper, epoch, reached, marks }]);
      on.flush();
      return reached;
    });
  }

  lookUp(node: string, keys: readonly ReceiptKey[]): Promise<ReceiptsAsOf> {
    return this.#call(node, "lookUp", (on) => asOf(on, keys));
  }

  logEnd(node: string): Promise<{ readonly epoch: EpochId; readonly offset: Offset }> {
    return this.#call(node, "logEnd", (on) => {
      const { epoch, asOf: offset } = asOf(on, []);
      return { epoch, offset };
    });
  }

  settle(node: string, request: SettleRequest): Promise<ReceiptsAsOf> {
    return this.#call(node, "settle", (on) => {
      requirePrimary(on);
      const absent = request.keys.filter((key) => stateOf(on, key).kind === "absent");
      const held = new Set<string>();
      if (absent.length > 0) {
        if (on.epoch !== request.epoch) throw new HighwaterError("epoch_changed");
        // It cannot wait here, so patience is at its end at once.
        for (const key of absent)
          if (this.#isLeftAlone(on, key)) held.add(receiptName(key));
          else terminate(on, key);
        const receipt = { kind: request.tombstone, epoch: request.epoch, digest: 0n };
        const settled = absent.filter((key) => !held.has(receiptName(key)));
        on.append(settled.map((key): Change => ({ kind: "receipt", key, receipt })));
        on.flush();
      }
      const found = asOf(on, request.keys);
      const receipts = found.receipts.map((state, at): ReceiptState => {
        const key = request.keys[at];
        return key !== undefined && held.has(receiptName(key)) ? { kind: "held" } : state;
      });
      return { ...found, receipts };
    });
  }

  #isLeftAlone(on: MemoryNode, key: ReceiptKey): boolean {
    const name = receiptName(key);
    const open = on.open.get(name);
    if (open === undefined) return false;
    if (open.client === null && open.helper === this.#helper) return false;
    if (this.#givenUp.get(name) === open.helper) return false;
    return on.limitMs === 0 || this.#world.wallMs() - open.beganMs <= on.limitMs;
  }

  giveUp(_node: string, key: ReceiptKey, holder: string): void {
    this.#givenUp.set(receiptName(key), holder);
  }

  maintain(node: string, request: { expireBeforeMs: number | null }): Promise<RetentionReport> {
    return this.#call(node, "maintain", (on) => {
      requirePrimary(on);
      const { window } = on.history;
      const expiredBeforeMs = Math.max(window.expiredBeforeMs, request.expireBeforeMs ?? 0);
      const ceilingMs = Math.max(window.ceilingMs, this.#ceilingMs());
      on.append([{ kind: "window", expiredBeforeMs, ceilingMs }]);
      on.flush();
      if (on.epoch === null) throw new Error("the node has no epoch");
      const position = { epoch: on.epoch, offset: on.end };
      return { expiredBeforeMs, ceilingMs, position, serverTimeMs: this.#world.wallMs() };
    });
  }

  #ceilingMs(): number {
    return this.#world.wallMs() + AHEAD * this.#world.retentionMs;
  }

  pools(): PoolReport[] {
    return [];
  }

  observe(): void {
    // No request waits for a session here.
  }

  /**
   * The server does not notice: what it was asked to run goes on, and no client learns how it ends.
   */
  forget(node: string): void {
    this.#sessions.set(node, (this.#sessions.get(node) ?? 0) + 1);
    for (const transaction of this.#world.node(node).open.values()) {
      if (transaction.helper !== this.#helper) continue;
      transaction.client?.reject(new Error("the connection was dropped"));
      transaction.client = null;
    }
  }

  async close(): Promise<void> {
    for (const { id } of this.nodes) this.forget(id);
    return Promise.resolve();
  }
}

/** The code is that of a refused connection, which is what callers look at. */
class Unreachable extends Error {
  readonly code = "ECONNREFUSED";
  constructor(node: string) {
    super(`node ${node} cannot be reached`);
  }
}

class AnswerLost extends Error {
  constructor(node: string) {
    super(`the connection to node ${node} ended before its answer`);
  }
}

/** The epoch's log is in the node's history up to the offset, as that history itself says. */
function hasInHistory(
  { history }: MemoryNode,
  { epoch, offset }: { readonly epoch: EpochId; readonly offset: Offset },
): boolean {
  const witnessed = [...history.witnesses.values()].some(
    (witness) => witness.epoch === epoch && witness.reached >= offset,
  );
  return (
    witnessed ||
    history.epochs.some(({ record }) => record.previous === epoch && BigInt(record.forkOffset) >= offset)
  );
}

function requirePrimary(node: MemoryNode): void {
  if (node.role !== "primary") throw new Error(`node ${node.spec.id} is a replica`);
}

function terminate(node: MemoryNode, key: ReceiptKey): void {
  const name = receiptName(key);
  node.open.get(name)?.client?.reject(new Error("terminated by another process"));
  node.open.delete(name);
}

function stateOf(node: MemoryNode, key: ReceiptKey): ReceiptState {
  const { receipts, window } = node.history;
  const found = receipts.get(receiptName(key));
  if (found !== undefined) return { kind: found.kind, epoch: found.epoch, digest: found.digest };
  const atMs = txnTimestampMs(key.id);
  if (atMs < window.expiredBeforeMs) return { kind: "expired" };
  return { kind: atMs < window.ceilingMs ? "absent" : "out_of_window" };
}

function asOf(node: MemoryNode, keys: readonly ReceiptKey[]): ReceiptsAsOf {
  requirePrimary(node);
  if (node.epoch === null) throw new HighwaterError("epoch_changed", { detail: "The node has no epoch." });
  const receipts = keys.map((key) => stateOf(node, key));
  return { receipts, epoch: node.epoch, asOf: node.end };
}
