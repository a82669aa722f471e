// A replicated database in memory, for simulation only: primaries, replicas and all their failures.
// Nothing moves by itself: the caller flushes, replicates, replays, cuts and crashes. It is
// deterministic and has no timer. It follows PostgreSQL where that decides a verdict: a crash makes
// offsets available again, and a timeline is only a number. A replica of another history continues
// to report positions, and a copy of a cleanly stopped node starts without recovery.
import { type EpochId, type Offset } from "@highwater/protocol";
import { type KeyCheck, type ReceiptKey, type StoreNode } from "../port.ts";
import { receiptName } from "./history.ts";
import { FIRST_OFFSET, MemoryNode, type MemorySnapshot } from "./node.ts";

/**
 * What becomes of one call of a store: it arrives and is answered; never arrives; or is carried out
 * and the answer is lost.
 */
export type Delivery = "answered" | "unreachable" | "answer_lost";

export interface Call {
  /** Name of the process that calls. */
  readonly helper: string;
  readonly node: string;
  readonly verb: string;
}

export interface MemoryWorldOptions {
  /** The first is the primary, the others follow it. */
  readonly nodes: readonly StoreNode[];
  /** The servers' clock. */
  readonly wallMs: () => number;
  readonly retentionMs: number;
  /** Where the log of every node begins. */
  readonly origin?: Offset;
}

export class MemoryWorld {
  readonly nodes: readonly StoreNode[];
  readonly retentionMs: number;
  readonly wallMs: () => number;
  /** Decides what becomes of each call; a simulation replaces it. */
  delivery: (call: Call) => Delivery = () => "answered";
  /**
   * Called between a COMMIT and the reading of its position: whatever it does to the node's log is
   * above the commit.
   */
  afterCommit: (node: string) => void = () => undefined;
  /** By kid. In no history: keys of a deployment change once in months. */
  readonly keyChecks = new Map<number, KeyCheck>();
  readonly #nodes = new Map<string, MemoryNode>();
  readonly #synchronous = new Map<string, ReadonlySet<string>>();
  #names = 0;

  constructor(options: MemoryWorldOptions) {
    this.nodes = options.nodes;
    this.retentionMs = options.retentionMs;
    this.wallMs = options.wallMs;
    const [first, ...others] = options.nodes;
    if (first === undefined) throw new Error("a world needs a node");
    for (const spec of options.nodes)
      this.#nodes.set(spec.id, new MemoryNode(spec, this.#incarnation(), options.origin ?? FIRST_OFFSET));
    const primary = this.node(first.id);
    primary.role = "primary";
    primary.checkpoint();
    for (const other of others) this.rejoin(other.id, first.id);
  }

  node(id: string): MemoryNode {
    const node = this.#nodes.get(id);
    if (node === undefined) throw new Error(`there is no node ${id}`);
    return node;
  }

  /** A UUID that no other call of this world returns. */
  newUuid(): string {
    return `00000000-0000-4000-8000-${(++this.#names).toString(16).padStart(12, "0")}`;
  }

  #incarnation(): string {
    return `memory/${String(++this.#names)}`;
  }

  // The log.

  /** Brings everything in the node's log to its disk. */
  flush(id: string): void {
    this.#running(id).flush();
  }

  /** Log that is no transaction of the service: a vacuum, another program's writes. */
  noise(id: string, bytes: number): void {
    this.#running(id, "primary").append([], bytes);
  }

  /**
   * Brings up to `count` records of the upstream's flushed log to the replica's disk and replays
   * them; returns how many. From an upstream of another history bytes arrive all the same, and the
   * replica calls them flushed.
   */
  replicate(id: string, count = Number.POSITIVE_INFINITY): number {
    const arrived = this.receive(id, count);
    this.replay(id);
    return arrived;
  }

  /** As `replicate`, without replaying: rows, and epoch records among them, stay out of sight. */
  receive(id: string, count = Number.POSITIVE_INFINITY): number {
    const replica = this.node(id);
    const upstream = this.#upstreamOf(replica);
    if (upstream === null) return 0;
    if (!this.#continues(replica, upstream)) {
      replica.junkEnd = upstream.flushed;
      return 0;
    }
    const from = replica.log.length;
    const arrived = upstream.log.slice(from, Math.min(upstream.flushedCount, from + count));
    replica.receive(arrived);
    if (upstream.switches.every((change) => replica.end >= change.at)) {
      replica.timeline = upstream.timeline;
      replica.switches = [...upstream.switches];
    }
    return arrived.length;
  }

  replay(id: string, count?: number): void {
    const node = this.#running(id);
    if (node.role === "replica") node.replay(count);
  }

  /** The replica's log so far is a prefix of the upstream's. */
  #continues(replica: MemoryNode, upstream: MemoryNode): boolean {
    const last = replica.log.length - 1;
    return replica.junkEnd === 0n && (last < 0 || replica.log[last] === upstream.log[last]);
  }

  /**
   * The server that a stream comes from right now, or null. All that a server checks is the
   * timeline and the position.
   */
  #upstreamOf(replica: MemoryNode): MemoryNode | null {
    if (replica.role !== "replica" || !replica.isUp || replica.isCut || replica.upstream === null)
      return null;
    const upstream = this.node(replica.upstream);
    if (!upstream.isUp || upstream.flushed < replica.flushed) return null;
    if (upstream.timeline === replica.timeline) return upstream;
    const left = upstream.switches.find((change) => change.timeline === replica.timeline);
    return left !== undefined && left.at >= replica.flushed ? upstream : null;
  }

  /**
   * The replica's stream: from whom, its name, and what the replica says is on its disk; null when
   * there is none.
   */
  streamOf(id: string): { upstream: string; session: string; flushed: Offset } | null {
    const replica = this.node(id);
    const upstream = this.#upstreamOf(replica);
    if (upstream === null) return null;
    const flushed = replica.junkEnd > replica.flushed ? replica.junkEnd : replica.flushed;
    return { upstream: upstream.spec.id, session: `stream ${String(replica.session)}`, flushed };
  }

  /** From now on the node takes these streams for synchronous ones, where it has them. */
  setSynchronous(id: string, replicas: readonly string[]): void {
    this.#synchronous.set(id, new Set(replicas));
  }

  isSynchronous(replica: string, upstream: string): boolean {
    return this.#synchronous.get(upstream)?.has(replica) ?? false;
  }

  #interrupt(id: string): void {
    for (const node of this.#nodes.values())
      if (node.spec.id === id || node.upstream === id) node.session = ++this.#names;
  }

  // Transactions that hold their id.

  /**
   * Lets a transaction that waits run to its end; its client gets the answer if it is still there.
   */
  finish(id: string, transaction: ReceiptKey): void {
    const node = this.#running(id);
    const name = receiptName(transaction);
    const open = node.open.get(name);
    if (open === undefined) throw new Error(`no transaction ${transaction.id} waits on ${id}`);
    node.open.delete(name);
    const execution = open.commit();
    open.client?.resolve(execution);
  }

  // Faults.

  /**
   * The server crashes and recovers at once: what was not on disk is lost, its offsets will be used
   * again.
   */
  crash(id: string): void {
    const node = this.#running(id);
    node.lose();
    node.recover();
    this.#interrupt(id);
  }

  /** The host dies. */
  kill(id: string): void {
    const node = this.#running(id);
    node.lose();
    this.#stopped(node, false);
  }

  /** A clean stop: everything is on disk, and the replicas that stream have all of it. */
  stop(id: string): void {
    const node = this.#running(id);
    node.endSessions();
    if (node.role === "primary") {
      node.checkpoint();
      for (const other of this.nodes) if (this.streamOf(other.id)?.upstream === id) this.replicate(other.id);
    } else node.flush();
    this.#stopped(node, true);
  }

  #stopped(node: MemoryNode, isClean: boolean): void {
    node.isUp = false;
    node.isClean = isClean;
    this.#interrupt(node.spec.id);
  }

  /** Starts a stopped node as what it was. */
  start(id: string): void {
    const node = this.#stoppedNode(id);
    node.isUp = true;
    node.incarnation = this.#incarnation();
    if (node.role === "replica" || !node.isClean) node.recover();
    else node.recovery = null;
    this.#interrupt(id);
  }

  /** Starts a stopped node as a primary, without a promotion: its timeline stays what it was. */
  startAsPrimary(id: string): void {
    const node = this.#stoppedNode(id);
    // The shutdown record of a replica is none that a primary could start from without a recovery.
    if (node.role === "replica") node.isClean = false;
    node.role = "primary";
    node.upstream = null;
    this.start(id);
  }

  cleanRestart(id: string): void {
    this.stop(id);
    this.start(id);
  }

  /** Ends the recovery of a replica, where its valid log ends; the server process goes on. */
  promote(id: string): void {
    const node = this.#running(id, "replica");
    node.switches.push({ timeline: node.timeline, at: node.flushed });
    node.timeline++;
    node.role = "primary";
    node.upstream = null;
    node.recover(true);
    this.#interrupt(id);
  }

  cut(id: string): void {
    this.node(id).isCut = true;
    this.#interrupt(id);
  }

  heal(id: string): void {
    this.node(id).isCut = false;
  }

  /** A running replica takes another upstream. */
  follow(id: string, upstream: string): void {
    this.#running(id, "replica").upstream = upstream;
    this.#interrupt(id);
  }

  /** Replaces the node's data by a fresh copy of the upstream's and starts it as its replica. */
  rejoin(id: string, upstream: string): void {
    const node = this.node(id);
    if (node.isUp && node.log.length > 0) this.kill(id);
    node.replaceBy(this.#running(upstream).copy());
    node.role = "replica";
    node.upstream = upstream;
    node.isUp = false;
    this.start(id);
  }

  /** A copy of the node's disk; of a running node it holds what is flushed. */
  snapshot(id: string): MemorySnapshot {
    return this.node(id).copy();
  }

  /** Puts a copy in place of a stopped node's data and does not start it. */
  restore(
    id: string,
    copy: MemorySnapshot,
    as: { role: "primary" } | { role: "replica"; upstream: string },
  ): void {
    const node = this.#stoppedNode(id);
    node.replaceBy(copy);
    node.role = as.role;
    node.upstream = as.role === "replica" ? as.upstream : null;
    this.#interrupt(id);
  }

  /**
   * An operator's command that the node is the primary, over all epochs that running nodes report,
   * and those given.
   */
  authorize(id: string, known: readonly EpochId[] = []): void {
    this.command(id, [...new Set([...known, ...this.#epochsOfAll()])]);
  }

  /** The same word, over these epochs only. */
  command(id: string, overrules: readonly EpochId[]): void {
    const node = this.#running(id, "primary");
    const afterEpochs = node.history.epochs.length;
    node.append([{ kind: "command_issued", id: this.newUuid(), node: id, overrules, afterEpochs }]);
    node.flush();
  }

  #epochsOfAll(): EpochId[] {
    const running = this.nodes.map(({ id }) => this.node(id)).filter(({ isUp }) => isUp);
    return running.flatMap(({ history }) => history.epochs.map(({ record }) => record.id as EpochId));
  }

  #running(id: string, role?: "primary" | "replica"): MemoryNode {
    const node = this.node(id);
    if (!node.isUp) throw new Error(`node ${id} is not running`);
    if (role !== undefined && node.role !== role) throw new Error(`node ${id} is no ${role}`);
    return node;
  }

  #stoppedNode(id: string): MemoryNode {
    const node = this.node(id);
    if (node.isUp) throw new Error(`node ${id} is running`);
    return node;
  }
}
