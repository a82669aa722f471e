// Helpers of the suite's tests: transactions, epochs and receipts in one line each, and checks on
// them.
import assert from "node:assert/strict";
import { type Authority, decideAuthority } from "@highwater/authority";
import {
  type EpochId,
  EpochGraph,
  type EpochRecord,
  type ErrorCode,
  HighwaterError,
  type Offset,
  parseOffset,
  type Statement,
  type TxnId,
  uuidOfHex,
} from "@highwater/protocol";
import { hash } from "node:crypto";
import { type ConformanceHarness, type MakeHarness } from "./harness.ts";
import type { Execution, MintRequest, ReceiptKey, Store, TransactionSpec } from "../port.ts";

/** A transaction as its client remembers it. */
export interface Committed extends ReceiptKey {
  readonly epoch: EpochId;
  readonly offset: Offset;
  readonly key: string;
}

export const PATIENCE_MS = 100;
/** Of transactions whose bodies do not matter. */
export const DIGEST = 7n;
const WIDE_OPEN = { maxRows: 1_000, maxBytes: 1_000_000 };

export class Bench {
  readonly harness: ConformanceHarness;
  readonly store: Store;
  readonly graph = new EpochGraph();
  #keys = 0;

  constructor(harness: ConformanceHarness) {
    this.harness = harness;
    this.store = harness.store;
  }

  get primary(): string {
    return this.harness.primary;
  }

  /** Runs a test on a fresh cluster. */
  static async with(makeHarness: MakeHarness, test: (bench: Bench) => Promise<void>): Promise<void> {
    const harness = await makeHarness();
    try {
      await test(new Bench(harness));
    } finally {
      await harness.close();
    }
  }

  /** The service's tables, and the first epoch. */
  async begin(): Promise<EpochId> {
    await this.store.prepare(this.primary);
    const record = await this.mint(this.primary);
    for (const replica of this.harness.replicas) await this.harness.catchUp(replica);
    return record.id as EpochId;
  }

  async mint(node: string, request: Partial<MintRequest> = {}): Promise<EpochRecord> {
    const record = await this.store.mint(node, {
      minSeq: this.graph.maxSeq + 1,
      supersedes: [],
      command: null,
      streamed: null,
      finalMarks: {},
      ...request,
    });
    this.graph.add([record]);
    return record;
  }

  spec(
    epoch: EpochId,
    statements: readonly Statement[],
    more: Partial<TransactionSpec> = {},
  ): TransactionSpec {
    const key = keyOf(more.id ?? this.harness.newId());
    const plain = { isolation: "read committed", readOnly: false, digest: DIGEST, ...WIDE_OPEN } as const;
    return { ...key, epoch, statements, ...plain, ...more };
  }

  newKey(): string {
    return `key${String(++this.#keys)}`;
  }

  async commit(node: string, epoch: EpochId, more: Partial<TransactionSpec> = {}): Promise<Committed> {
    const key = this.newKey();
    const spec = this.spec(epoch, [this.harness.statements.put(key, "1")], more);
    const { offset } = committed(await this.store.execute(node, spec));
    return { id: spec.id, tag: spec.tag, epoch, offset, key };
  }

  /** A read-only transaction: the value and the position. */
  async read(node: string, epoch: EpochId, key: string): Promise<{ value: string | null; offset: Offset }> {
    const spec = this.spec(epoch, [this.harness.statements.get(key)], { readOnly: true });
    const { offset, results } = committed(await this.store.execute(node, spec));
    return { value: results[0]?.rows[0]?.[0] ?? null, offset };
  }

  /** The transaction's own receipt, written in its own epoch, is in the node's history. */
  async isPresent(node: string, transaction: Committed): Promise<boolean> {
    const { receipts } = await this.store.lookUp(node, [transaction]);
    const [state] = receipts;
    const isPresent = state?.kind === "commit" && state.epoch === transaction.epoch;
    const { epoch } = await this.store.lookUp(node, []);
    const { value } = await this.read(node, epoch, transaction.key);
    assert.equal(value !== null, isPresent, "a receipt is in a history if and only if its transaction is");
    return isPresent;
  }

  /** Nothing may be carried over that is not there. */
  async checkFork(node: string, epoch: EpochRecord, transactions: readonly Committed[]): Promise<boolean[]> {
    const fork = offsetOf(epoch.forkOffset);
    const presence: boolean[] = [];
    for (const transaction of transactions) {
      const isPresent = await this.isPresent(node, transaction);
      presence.push(isPresent);
      if (transaction.offset > fork) continue;
      assert.ok(
        isPresent,
        `${transaction.key} at ${String(transaction.offset)} is carried over but not there`,
      );
    }
    return presence;
  }

  /**
   * Who is the primary, for a process that asks all nodes now and last took `known` for current.
   */
  async authority(known: EpochId | null): Promise<Authority> {
    const { otherStore } = this.harness;
    const answers = await Promise.allSettled(otherStore.nodes.map(({ id }) => otherStore.probe(id)));
    const reports = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
    for (const report of reports) this.graph.add(report.epochs);
    return decideAuthority(reports, known, this.graph);
  }

  /** Does what the authority asks for. */
  async obey(authority: Authority): Promise<EpochRecord> {
    assert.ok(
      authority.kind === "mint",
      `expected a node to begin an epoch, got ${JSON.stringify(authority)}`,
    );
    const { node, command, supersedes } = authority;
    return this.mint(node, { command, supersedes });
  }
}

/** What an owner's receipts are found by. */
export function keyOf(id: TxnId, owner = ""): ReceiptKey {
  return { id, tag: uuidOfHex(hash("sha256", `${owner}/${id}`), 0) };
}

export function committed(execution: Execution): Extract<Execution, { kind: "committed" }> {
  assert.ok(execution.kind === "committed", `expected a commit, got ${execution.kind}`);
  return execution;
}

export function offsetOf(text: string): Offset {
  const offset = parseOffset(text);
  assert.ok(offset !== undefined, `not an offset: ${text}`);
  return offset;
}

export async function refusedWith(work: Promise<unknown>, ...codes: ErrorCode[]): Promise<HighwaterError> {
  const refused = await work.then(
    (value) => assert.fail(`expected ${codes.join(" or ")}, got ${String(value)}`),
    (cause: unknown) => cause,
  );
  assert.ok(refused instanceof HighwaterError, String(refused));
  assert.ok(codes.includes(refused.code), `expected ${codes.join(" or ")}, got ${refused.code}`);
  return refused;
}
