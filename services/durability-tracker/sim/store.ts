// The simulated store as one gateway process reaches it. Every call of the gateway waits here until the run decides that it gets
// to its node, and whether the answer gets back.
import { type NodeReport } from "@highwater/authority";
import { type EpochId, type EpochRecord, HighwaterError, type Offset, type TxnId } from "@highwater/protocol";
import {
  type Execution,
  type KeyCheck,
  type MintRequest,
  type ReceiptKey,
  type ReceiptsAsOf,
  type ReceiptState,
  type SettleRequest,
  type Store,
  type TransactionSpec,
  type Witness,
} from "@highwater/store";
import { type SimNode } from "./node.ts";
import { type Txn } from "./truth.ts";
import { type World } from "./world.ts";

/** A transaction on its way. `committed`: its COMMIT is done, and its session has yet to read the position. */
export interface Run {
  readonly spec: TransactionSpec;
  readonly node: string;
  readonly request: number;
  phase: "sent" | "committed" | "ended";
  sessions: number;
  resolve(execution: Execution): void;
  reject(cause: HighwaterError): void;
}

interface Question {
  readonly node: string;
  readonly what: string;
  carryOut(node: SimNode): () => void;
  fail(cause: Error): void;
}

type Probe = PromiseWithResolvers<NodeReport>;

export interface SimStoreContext {
  readonly world: World;
  /** The node, if it is up and the gateway can reach it. */
  readonly reach: (node: string) => SimNode | null;
  readonly requestOf: (id: TxnId) => number;
  readonly onRun: (run: Run) => void;
  readonly onEpoch: (record: EpochRecord) => void;
}

/** Has the methods of the product's Store that a gateway calls for its transactions. */
export class SimStore {
  readonly nodes: Store["nodes"];
  readonly #parts: SimStoreContext;
  readonly #probes = new Map<string, Probe>();
  runs: Run[] = [];
  questions: Question[] = [];
  /** In which epoch the gateway has last read what became of an id. */
  readonly readIn = new Map<TxnId, EpochId>();

  constructor(parts: SimStoreContext) {
    this.#parts = parts;
    this.nodes = parts.world.nodes.map(({ site }) => site);
  }

  // ---- what the gateway calls

  probe(node: string): Promise<NodeReport> {
    const probe: Probe = Promise.withResolvers();
    this.#probes.set(node, probe);
    return probe.promise;
  }

  execute(node: string, spec: TransactionSpec, signal?: AbortSignal): Promise<Execution> {
    const { promise, resolve, reject } = Promise.withResolvers<Execution>();
    const request = this.#parts.requestOf(spec.id);
    this.#parts.world.digests.set(request, spec.digest);
    const run: Run = { spec, node, request, phase: "sent", sessions: -1, resolve, reject };
    this.runs.push(run);
    spec.onBeforeSend?.();
    this.#parts.onRun(run);
    signal?.addEventListener("abort", () => {
      if (run.phase === "sent") this.fail(run, "statement_timeout");
    });
    return promise;
  }

  settle(node: string, { epoch, keys, tombstone }: SettleRequest): Promise<ReceiptsAsOf> {
    return this.#ask(node, `settles ${String(keys.length)}`, (at) => {
      const found = this.#parts.world.settle(at, { epoch, ids: keys.map(({ id }) => id), tombstone });
      if (found === null) throw new HighwaterError("epoch_changed", {});
      return this.#receipts(at, keys);
    });
  }

  lookUp(node: string, keys: readonly ReceiptKey[]): Promise<ReceiptsAsOf> {
    return this.#ask(node, `looks up ${String(keys.length)}`, (at) => this.#receipts(at, keys));
  }

  logEnd(node: string): Promise<{ readonly epoch: EpochId; readonly offset: Offset }> {
    return this.#ask(node, "reads the end of the log", (at) => {
      if (at.epoch === null) throw new HighwaterError("epoch_changed", {});
      return { epoch: at.epoch, offset: this.#parts.world.logEnd(at) };
    });
  }

  helpFlush(node: string, epoch: EpochId, marks?: Witness["marks"]): Promise<Offset> {
    return this.#ask(node, "helps the flush", (at) => {
      const reached = this.#parts.world.helpFlush(at, epoch, marks);
      if (reached === null) throw new HighwaterError("epoch_changed", {});
      return reached;
    });
  }

  /** Other things can happen between its two steps. */
  async mint(node: string, request: MintRequest): Promise<EpochRecord> {
    const { epochs } = this.#parts.world;
    const { begun, sessions } = await this.#ask(node, "begins an epoch", (at) => {
      if (!at.isPrimary) throw new HighwaterError("primary_unavailable", {});
      return { begun: epochs.begin(at, request), sessions: at.sessions };
    });
    if (typeof begun !== "string") return begun;
    return this.#ask(node, `opens ${begun}`, (at) => {
      const record = at.sessions === sessions ? epochs.open(at, begun, request) : null;
      if (record === null) throw new HighwaterError("epoch_changed", {});
      this.#parts.onEpoch(record);
      return record;
    });
  }

  roleFaults(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  endSession(): Promise<void> {
    return Promise.resolve();
  }

  keyChecks(): Promise<readonly KeyCheck[]> {
    return Promise.resolve(this.#parts.world.keyChecks);
  }

  addKeyChecks(_node: string, checks: readonly KeyCheck[]): Promise<void> {
    this.#parts.world.keyChecks.push(...checks);
    return Promise.resolve();
  }

  observe(): void {
    // Nothing waits for a session here.
  }

  forget(): void {
    // What was sent to the node fails when the run gets to it.
  }

  #ask<T>(node: string, what: string, carryOut: (node: SimNode) => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.questions.push({
      node,
      what,
      fail: reject,
      carryOut: (at) => {
        const value = carryOut(at);
        return () => {
          resolve(value);
        };
      },
    });
    return promise;
  }

  #receipts(node: SimNode, keys: readonly ReceiptKey[]): ReceiptsAsOf {
    const { epoch } = node;
    if (epoch === null) throw new HighwaterError("epoch_changed", {});
    const receipts = keys.map(({ id }): ReceiptState => {
      const receipt = node.receipt(id);
      if (receipt === undefined) return { kind: "absent" };
      this.readIn.set(id, epoch);
      const digest = this.#parts.world.digests.get(receipt.request) ?? 0n;
      return { kind: receipt.says, epoch: receipt.epoch, digest };
    });
    return { receipts, epoch, asOf: node.end };
  }

  // ---- what the run decides

  /** The node's answer to the watcher's question, if it has asked one. */
  answerProbe(id: string): void {
    const probe = this.#probes.get(id);
    this.#probes.delete(id);
    const node = this.#parts.reach(id);
    if (node !== null) probe?.resolve(this.#parts.world.report(node));
    else probe?.reject(Object.assign(new Error(`${id} refuses connections`), { code: "ECONNREFUSED" }));
  }

  /** One question gets to its node; `isReturned`: its answer gets back. */
  answer(question: Question, isReturned: boolean): void {
    this.questions = this.questions.filter((each) => each !== question);
    const node = this.#parts.reach(question.node);
    if (node === null) {
      question.fail(new Error(`${question.node} cannot be reached`));
      return;
    }
    try {
      const deliver = question.carryOut(node);
      if (isReturned) deliver();
      else question.fail(new Error(`the answer of ${question.node} was lost`));
    } catch (cause) {
      if (!(cause instanceof HighwaterError)) throw cause;
      question.fail(cause);
    }
  }

  open(phase: Run["phase"]): Run[] {
    return this.runs.filter((run) => run.phase === phase);
  }

  #end(run: Run): void {
    run.phase = "ended";
    this.runs = this.runs.filter((each) => each !== run);
  }

  /** The connection dies with the COMMIT on its way. */
  cutOff(run: Run): void {
    this.#end(run);
    run.reject(new HighwaterError("commit_unconfirmed", { transactionId: run.spec.id }));
  }

  /** COMMIT. Answers why it has not run, or what has committed. */
  commit(run: Run, size: number, isAnswered: boolean): Txn | "refused" | "used" | "unreachable" {
    const { world, reach } = this.#parts;
    const { id, epoch } = run.spec;
    const node = reach(run.node);
    if (node === null) {
      this.cutOff(run);
      return "unreachable";
    }
    const txn = world.commit(node, { id, attempt: epoch, request: run.request, size });
    if (typeof txn === "string") {
      this.#end(run);
      if (txn === "used") run.resolve({ kind: "already_settled" });
      else run.reject(new HighwaterError("epoch_changed", { transactionId: id }));
      return txn;
    }
    run.sessions = node.sessions;
    run.phase = "committed";
    if (!isAnswered) this.cutOff(run);
    return txn;
  }

  /** The database undoes it: at a statement, or because its time is over. */
  fail(run: Run, code: "serialization_failure" | "statement_timeout"): void {
    const node = this.#parts.reach(run.node);
    const { id, epoch } = run.spec;
    if (node === null) {
      this.cutOff(run);
      return;
    }
    this.#end(run);
    if (node.epoch !== epoch) run.reject(new HighwaterError("epoch_changed", { transactionId: id }));
    else if (node.receipt(id) !== undefined) run.resolve({ kind: "already_settled" });
    // Its receipt went in, and came out again with the failure.
    else run.reject(new HighwaterError(code, { transactionId: id, sqlstate: "40001" }));
  }

  /** The position is read behind the COMMIT, on its connection: by then others may have written more. */
  sendPosition(run: Run): void {
    const { world, reach } = this.#parts;
    const node = reach(run.node);
    if (node === null || node.sessions !== run.sessions || node.epoch !== run.spec.epoch) {
      this.cutOff(run);
      return;
    }
    this.#end(run);
    run.resolve({ kind: "committed", offset: world.logEnd(node), exact: false, results: [] });
  }
}
