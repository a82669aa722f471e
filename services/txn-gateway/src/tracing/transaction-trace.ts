// The part of a trace that a transaction adds: its own span, the database's, and the one from
// commit to durability, which may end long after the request. It holds numbers only, until a part
// of it is kept.
import { type EpochId, HighwaterError, type Offset, type TxnId } from "@highwater/protocol";
import {
  type FinishedSpan,
  type RequestTrace,
  type SpanContext,
  traceFields,
  type TracePart,
} from "@highwater/service";
import { type Tokens } from "../txn/tokens.ts";

export interface Traced {
  /** Null: it has none. */
  readonly id: TxnId | null;
  readonly ack: "commit" | "durable";
  /** Absent: it is not known. */
  readonly isolation?: string;
  readonly readOnly: boolean;
  readonly form: "one_shot" | "interactive" | "wire";
  readonly statements: number;
}

/** What a mark, or a tracker, says of it in the end. */
export type TracedVerdict = "durable" | "lost" | "broken" | "retried";

interface CommittedAt {
  readonly epoch: EpochId;
  readonly offset: Offset;
  readonly owner: bigint;
}

const SYSTEM = { "db.system.name": "postgresql" } as const;

/** Why the database refused or did not do a call, for the call's span. */
interface StoreError {
  readonly code: string;
  readonly sqlstate: string | undefined;
}

export class TransactionTrace implements TracePart {
  readonly #request: RequestTrace;
  readonly #traced: Traced;
  readonly #startMs: number;
  readonly #waitsAt: string | null;
  #endMs = 0;
  #storeStartMs = 0;
  #storeEndMs = 0;
  #node = "";
  #storeError: StoreError | null = null;
  #outcome = "";
  #error: string | null = null;
  #committedAt: CommittedAt | null = null;
  #context: SpanContext | null = null;
  #settlement: { readonly verdict: TracedVerdict; readonly level: string; readonly atMs: number } | null =
    null;
  #isEmitted = false;

  /** `waitsAt`: the level at which a safe transaction is answered; null for a fast one. */
  constructor(request: RequestTrace, traced: Traced, waitsAt: string | null) {
    this.#request = request;
    this.#traced = traced;
    this.#waitsAt = waitsAt;
    this.#startMs = request.tracer.nowMs();
    request.add(this);
  }

  /** `atMs`: by the tracer's clock; absent: now. */
  storeBegan(node: string, atMs = this.#request.tracer.nowMs()): void {
    this.#node = node;
    this.#storeStartMs = atMs;
  }

  storeEnded(error: StoreError | null = null): void {
    this.#storeError = error;
    this.#storeEndMs = this.#request.tracer.nowMs();
  }

  committed(committedAt: CommittedAt): void {
    this.#committedAt = committedAt;
  }

  /** The answer, or the code of the error that is answered. */
  ended(outcome: string, error: string | null = null): void {
    this.#outcome = outcome;
    this.#error = error;
    this.#endMs = this.#request.tracer.nowMs();
  }

  /** How it went on at the level. The first word for a level counts. */
  settled(verdict: TracedVerdict, level: string): void {
    if (this.#settlement !== null) return;
    // A safe one is reported with the level that it waits for.
    if (this.#waitsAt !== null && level !== this.#waitsAt && verdict === "durable") return;
    this.#settlement = { verdict, level, atMs: this.#request.tracer.nowMs() };
    if (this.#isEmitted) this.#emit(this.#durability());
    else if (verdict === "lost" || verdict === "broken") this.#keep(verdict);
  }

  /** Kept for what became of it, when its request was not. */
  #keep(verdict: string): void {
    if (!this.#request.isOver) this.#request.fail(`transaction_${verdict}`);
    else for (const span of this.spans()) this.#request.tracer.emit(span);
  }

  #emit(spans: readonly FinishedSpan[]): void {
    for (const span of spans) this.#request.tracer.emit(span);
  }

  /** By which a tracker can be asked what became of it; null when it has not committed. */
  tokenBy(tokens: Pick<Tokens, "of">): string | null {
    const { id, readOnly } = this.#traced;
    if (this.#committedAt === null || id === null) return null;
    const { epoch, offset, owner } = this.#committedAt;
    return tokens.of({ kind: readOnly ? "read" : "write", id, epoch, offset, attempt: epoch, owner });
  }

  get logFields(): Readonly<Record<string, string>> {
    return traceFields(this.#request);
  }

  spans(): readonly FinishedSpan[] {
    this.#isEmitted = true;
    return [this.#transaction(), ...this.#store(), ...this.#durability()];
  }

  #transaction(): FinishedSpan {
    const { ack, isolation, form } = this.#traced;
    const committedAt = this.#committedAt;
    return {
      name: "highwater transaction",
      kind: "internal",
      context: this.#ownContext(),
      parentSpanId: this.#parentSpanId(),
      startMs: this.#startMs,
      endMs: Math.max(this.#endMs, this.#startMs),
      error: this.#error,
      attributes: {
        ...this.#about(),
        "highwater.ack": ack,
        "highwater.isolation": isolation,
        "highwater.form": form,
        "highwater.state": this.#outcome,
        "error.type": this.#error ?? undefined,
        "highwater.epoch": committedAt?.epoch,
        "highwater.offset": committedAt?.offset.toString(),
      },
    };
  }

  #store(): FinishedSpan[] {
    if (this.#storeEndMs === 0) return [];
    const { statements } = this.#traced;
    const error = this.#storeError;
    return [
      {
        name: "COMMIT",
        kind: "client",
        context: this.#request.childContext(),
        parentSpanId: this.#ownContext().spanId,
        startMs: this.#storeStartMs,
        endMs: this.#storeEndMs,
        error: error?.code ?? null,
        attributes: {
          ...SYSTEM,
          ...this.#about(),
          "db.operation.name": "COMMIT",
          "db.operation.batch.size": statements > 1 ? statements : undefined,
          "server.address": this.#node,
          "highwater.node": this.#node,
          "db.response.status_code": error?.sqlstate,
          "error.type": error?.code,
        },
      },
    ];
  }

  /** Beside the transaction, whose request may be over long before, and linked to it. */
  #durability(): FinishedSpan[] {
    if (this.#settlement === null) return [];
    const { verdict, level, atMs } = this.#settlement;
    return [
      {
        name: "highwater durable",
        kind: "internal",
        context: this.#request.childContext(),
        parentSpanId: this.#parentSpanId(),
        startMs: this.#storeEndMs === 0 ? this.#startMs : this.#storeEndMs,
        endMs: atMs,
        error: verdict === "durable" ? null : verdict,
        attributes: { ...this.#about(), "highwater.level": level, "highwater.verdict": verdict },
        links: [this.#ownContext()],
      },
    ];
  }

  #about(): Readonly<Record<string, string>> {
    const { id } = this.#traced;
    return id === null ? {} : { "highwater.transaction.id": id };
  }

  #ownContext(): SpanContext {
    return (this.#context ??= this.#request.childContext());
  }

  /** The request's span, if that is there. */
  #parentSpanId(): string | undefined {
    return this.#request.isKept ? this.#request.context.spanId : this.#request.parent?.spanId;
  }
}

/** What the database said, for the span of the call. */
export function storeError(cause: unknown): StoreError {
  if (!(cause instanceof HighwaterError)) return { code: "internal", sqlstate: undefined };
  return { code: cause.code, sqlstate: cause.details.sqlstate };
}

/** A call of an open transaction to the database. */
export class StoreCall implements TracePart {
  readonly #request: RequestTrace;
  readonly #about: { readonly name: string; readonly id: TxnId; readonly statements: number };
  readonly #startMs: number;
  #endMs = 0;
  #error: StoreError | null = null;

  constructor(
    request: RequestTrace,
    about: { readonly name: string; readonly id: TxnId; readonly statements: number },
  ) {
    this.#request = request;
    this.#about = about;
    this.#startMs = request.tracer.nowMs();
    request.add(this);
  }

  ended(error: StoreError | null = null): void {
    this.#error = error;
    this.#endMs = this.#request.tracer.nowMs();
  }

  spans(): readonly FinishedSpan[] {
    const { name, id, statements } = this.#about;
    const error = this.#error;
    return [
      {
        name,
        kind: "client",
        context: this.#request.childContext(),
        parentSpanId: this.#request.context.spanId,
        startMs: this.#startMs,
        endMs: Math.max(this.#endMs, this.#startMs),
        error: error?.code ?? null,
        attributes: {
          ...SYSTEM,
          "db.operation.name": name,
          "highwater.transaction.id": id,
          "db.operation.batch.size": statements > 1 ? statements : undefined,
          "db.response.status_code": error?.sqlstate,
          "error.type": error?.code,
        },
      },
    ];
  }
}
