// Keeps the contents of transactions: collects what a transaction ran and a digest of what its
// client was answered, seals both, and announces them after the position. Parses no value and asks
// the database nothing. (docs/decisions/0226-contents-of-lost-transactions-are-kept.md)
import { hash } from "node:crypto";
import {
  type Answered,
  type EpochId,
  formatOffset,
  HighwaterError,
  type Isolation,
  type KeptContents,
  type KeptResult,
  LIMITS,
  type Offset,
  type Statement,
  type StatementResult,
  type TxnId,
} from "@highwater/protocol";
import { type ContentsKeys, type Principal } from "@highwater/service";
import { type CommitOrder } from "@highwater/store";
import { type Config } from "../config.ts";
import { type Deps } from "../deps.ts";
import { RETRY_MS } from "../retry.ts";
import { type Announced, type Announcer } from "../trackers/announcer.ts";

export interface KeeperContext {
  readonly config: Pick<
    Config,
    | "keep"
    | "replayHoldMs"
    | "keepBytes"
    | "keepPendingBytes"
    | "keepWaitMs"
    | "statementTimeoutMs"
    | "lockTimeoutMs"
  >;
  readonly deps: Pick<Deps, "clock">;
  /** Null: the deployment keeps nothing. */
  readonly contentsKeys: ContentsKeys | null;
  readonly announcer: Announcer;
}

/** What is known of a transaction before it runs. */
export interface KeepRequest {
  readonly id: TxnId;
  readonly form: KeptContents["form"];
  readonly isolation: Isolation;
  readonly readOnly: boolean;
  /** Undefined: as the key says, or else the gateway. */
  readonly keep?: boolean | undefined;
  /** Of an interactive transaction, its COMMIT says so. */
  readonly ack?: "commit" | "durable";
  /** What its client waits for, if it does. */
  readonly level?: string;
  /** Of a transaction whose client does not wait for durability. Undefined: as the key says. */
  readonly onLost?: "replay" | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** The lost transaction that it brings back. */
  readonly redoOf?: string;
}

export class Keeper {
  readonly context: KeeperContext;

  constructor(context: KeeperContext) {
    this.context = context;
  }

  /** How sessions of the principal are kept; null: nothing can be kept. */
  sessions(principal: Principal): { mostBytes: number; isDefault: boolean } | null {
    const { config, contentsKeys, announcer } = this.context;
    if (contentsKeys === null || !announcer.hasTrackers) return null;
    return { mostBytes: mostBytes(config, principal), isDefault: keepsByDefault(config, principal) };
  }

  /**
   * Returns where the transaction's contents are collected, or null if they are not to be kept.
   * Errors, only if the request asks for it: `keep_unavailable`, `overloaded`.
   */
  begin(asked: KeepRequest, principal: Principal): Kept | null {
    const { config, contentsKeys, announcer } = this.context;
    const request = this.#withDefaults(asked, principal);
    const isAsked = request.keep === true;
    if (request.readOnly || !(request.keep ?? keepsByDefault(config, principal))) return null;
    const { id } = request;
    if (request.onLost !== undefined && config.replayHoldMs === 0)
      throw new HighwaterError("keep_unavailable", {
        detail: "HIGHWATER_REPLAY_HOLD_MS is 0, so the gateways bring nothing back (onLost).",
        transactionId: id,
      });
    if (contentsKeys === null || !announcer.hasTrackers) {
      if (!isAsked) return null;
      const detail = contentsKeys === null ? "HIGHWATER_CONTENTS_KEYS is not set." : "There are no trackers.";
      throw new HighwaterError("keep_unavailable", { detail, transactionId: id });
    }
    if (announcer.contentsPending > config.keepPendingBytes) {
      if (!isAsked) return new Kept(this.context, contentsKeys, request, principal).giveUp();
      throw new HighwaterError("overloaded", {
        detail: `Contents of ${String(announcer.contentsPending)} bytes wait for a tracker, more than the limit (keepPendingBytes); retry later.`,
        limit: { name: "keepPendingBytes", value: config.keepPendingBytes },
        retryAfterMs: RETRY_MS.place,
        transactionId: id,
      });
    }
    return new Kept(this.context, contentsKeys, request, principal);
  }

  /** A key's `onLost` counts where a request says nothing and could say it. */
  #withDefaults(request: KeepRequest, { onLost }: Principal): KeepRequest {
    const { form, keep, metadata = {} } = request;
    if (onLost === undefined || request.onLost !== undefined || keep === false) return request;
    // The announcement says that it is brought back; a session of the wire knows only after its
    // commit whether it can be kept.
    const isAble = form !== "wire" && Object.keys(metadata).length < LIMITS.metadataEntries;
    return isAble && this.context.config.replayHoldMs > 0 ? { ...request, onLost } : request;
  }
}

function keepsByDefault({ keep }: KeeperContext["config"], { limits, onLost }: Principal): boolean {
  return limits.keepBytes !== null || onLost !== undefined || keep;
}

/** Of one transaction. */
function mostBytes({ keepBytes }: KeeperContext["config"], { limits }: Principal): number {
  return Math.min(keepBytes, limits.keepBytes ?? keepBytes);
}

/** The contents of one attempt. */
export class Kept {
  readonly #context: KeeperContext;
  readonly #keys: ContentsKeys;
  readonly #request: KeepRequest;
  readonly #principal: Principal;
  readonly #statements: KeptContents["statements"] = [];
  /** Null: its client does not wait for durability. */
  #waitsFor: string | null = null;
  #bytes = 0;
  #isGivenUp = false;
  #announced: Announced | null = null;
  #reached: Promise<boolean> = Promise.resolve(false);

  constructor(context: KeeperContext, keys: ContentsKeys, request: KeepRequest, principal: Principal) {
    this.#context = context;
    this.#keys = keys;
    this.#request = request;
    this.#principal = principal;
    this.acknowledge(request);
  }

  /** The service has promised to bring it back. */
  get isRedone(): boolean {
    return this.#request.onLost !== undefined && this.#waitsFor === null && !this.#isGivenUp;
  }

  get #mostBytes(): number {
    return mostBytes(this.#context.config, this.#principal);
  }

  /** Contents that the request did not ask for are left out where a limit is reached. */
  giveUp(): this {
    this.#isGivenUp = true;
    this.#statements.length = 0;
    return this;
  }

  /**
   * Refuses statements that are too large to be kept. Errors: `contents_too_large`, only if the
   * request asked to keep them.
   */
  check(statements: readonly Statement[]): void {
    const { id, keep } = this.#request;
    const bytes = this.#bytes + sizeOf(statements);
    const keepBytes = this.#mostBytes;
    if (keep !== true || bytes <= keepBytes) return;
    throw new HighwaterError("contents_too_large", {
      detail: `The contents have ${String(bytes)} bytes; the limit keepBytes is ${String(keepBytes)}.`,
      limit: { name: "keepBytes", value: keepBytes },
      transactionId: id,
    });
  }

  /** Its COMMIT asks for this acknowledgement. */
  acknowledge({ ack, level = "" }: Pick<KeepRequest, "ack" | "level">): void {
    this.#waitsFor = ack === "durable" ? level : null;
  }

  /** Adds statements that are about to run. */
  add(statements: readonly Statement[]): void {
    if (this.#isGivenUp) return;
    this.#bytes += sizeOf(statements);
    if (this.#bytes > this.#mostBytes) {
      this.giveUp();
      return;
    }
    for (const statement of statements) this.#statements.push({ ...statement, result: null });
  }

  /** The statements of a session of the wire, with what is known of their results. */
  ran(statements: KeptContents["statements"]): void {
    this.add(statements);
    if (!this.#isGivenUp) this.#statements.splice(0, this.#statements.length, ...statements);
  }

  /** The results of the statements that were added last. */
  answered(results: readonly StatementResult[]): void {
    if (this.#isGivenUp) return;
    const from = this.#statements.length - results.length;
    for (const [at, result] of results.entries()) {
      const statement = this.#statements[from + at];
      if (statement !== undefined) statement.result = keptResult(result);
    }
  }

  /**
   * Announces the contents, once the position has been announced. `results`: of the statements that
   * were added last; null if they are not known.
   */
  committed(
    announced: Announced | null,
    at: { readonly epoch: EpochId; readonly offset: Offset },
    results: readonly StatementResult[] | null,
    order?: CommitOrder,
    session?: Pick<KeptContents, "isolation" | "settings">,
  ): void {
    if (this.#isGivenUp || announced === null || this.#announced !== null) return;
    if (results !== null) this.answered(results);
    const { id } = this.#request;
    const { owner } = this.#principal;
    const offset = formatOffset(at.offset);
    const text = JSON.stringify(this.#contents(order, session));
    const sealed = this.#keys.seal({ owner, id, epoch: at.epoch, offset }, text).toString("base64url");
    this.#announced = announced;
    this.#reached = announced.contents(offset, sealed);
  }

  #contents(
    order: CommitOrder | undefined,
    session: Pick<KeptContents, "isolation" | "settings"> | undefined,
  ): KeptContents {
    const { form, isolation, redoOf } = this.#request;
    const { id, role, limits } = this.#principal;
    const { config } = this.#context;
    const digests = this.#statements.map(({ result }) => result?.digest ?? null);
    return {
      version: 1,
      form,
      isolation: session?.isolation ?? isolation,
      key: id,
      role,
      settings: {
        statement_timeout: String(limits.statementTimeoutMs ?? config.statementTimeoutMs),
        lock_timeout: String(limits.lockTimeoutMs ?? config.lockTimeoutMs),
        ...session?.settings,
      },
      statements: this.#statements,
      ...(order !== undefined && { order }),
      ...(this.#waitsFor !== null && { ack: "durable", level: this.#waitsFor }),
      ...(this.isRedone && { onLost: "replay" }),
      ...(redoOf !== undefined && { redoOf }),
      digest: digests.includes(null)
        ? null
        : digestOf(digests.map((digest) => `${String(digest)}\n`).join("")),
    };
  }

  /**
   * Resolves when a tracker has the contents, and so the position, or cannot keep them. An answer
   * waits for it: contents that reach no tracker before the answer could be run again although
   * their client has already done so.
   */
  whenReached(): Promise<boolean> {
    const { deps, config } = this.#context;
    // Without an AbortController, whose error with its stack costs more than all the rest here.
    return new Promise((resolve) => {
      const cancel = deps.clock.after(config.keepWaitMs, () => {
        resolve(false);
      });
      void this.#reached.then((isReached) => {
        cancel();
        resolve(isReached);
      });
    });
  }

  /** Reports whether the answer was written to the client. */
  answerEnded(how: Answered): void {
    if (how !== "unknown") this.#announced?.answered(how);
  }
}

function sizeOf(statements: readonly Statement[]): number {
  let bytes = 0;
  for (const { sql, params = [] } of statements) {
    bytes += Buffer.byteLength(sql);
    for (const param of params) bytes += Buffer.byteLength(String(param));
  }
  return bytes;
}

export function keptResult({ command, rowCount, fields, rows, truncated }: StatementResult): KeptResult {
  const digest =
    truncated === true
      ? null
      : digestOf(JSON.stringify({ fields: fields.map(({ name, oid }) => ({ name, oid })), rows }));
  return { command, rowCount, digest };
}

function digestOf(text: string): string {
  return hash("sha256", text);
}
