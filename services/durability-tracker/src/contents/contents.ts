// The contents of kept transactions in this tracker: takes them from gateways, forgets them when
// their transactions are durable at every level, lists what was lost, and opens what may be read.
// Verdicts come from the core. (docs/decisions/0226-contents-of-lost-transactions-are-kept.md)
import {
  type AnnouncementsAnswer,
  type EpochId,
  type ErasedContents,
  HighwaterError,
  KeptContents,
  type LostDetails,
  type LostTransaction,
  type NotKeptWhy,
  type Offset,
  type Order,
  readOrder,
  type SealedLost,
  type TransactionEventData,
  type TxnId,
  validate,
} from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type ContentsKeys, isLogged, type Log, type Principal, type SealedAbout } from "@highwater/service";
import { type Act, type ContentsStore } from "@highwater/store";
import {
  currentEpoch,
  judge,
  type Judgement,
  markIn,
  type Published,
  type TrackerState,
} from "../core/index.ts";
import { transactionData } from "../events/new-events.ts";
import { OwnerTurns } from "../shell/owner-turns.ts";
import {
  type AttemptKey,
  type ContentsTotals,
  type ListedLost,
  type LostQuestion,
  type LostRow,
  type NotKept,
  type PendingContents,
  type SealedContents,
} from "./contents-database.ts";
import { type ContentsFile } from "./contents-file.ts";
import { Dependencies, type Placed } from "./dependencies.ts";
import { type ContentsMessage, groupsOf } from "./entries.ts";

export interface ContentsOptions {
  readonly file: ContentsFile;
  readonly clock: Clock;
  readonly log: Log;
  /** Null: the deployment has none, so contents cannot be read here. */
  readonly keys: ContentsKeys | null;
  /** Opens the store's part: the audit log and the marks of erasures. */
  readonly store: () => ContentsStore;
  readonly state: () => TrackerState;
  /** The primary's node; null while there is none. */
  readonly primary: () => string | null;
  /** Milliseconds since 1970 by which data expire; null while it is not known. */
  readonly readTime: () => Promise<number | null>;
  readonly onNotKept: (why: NotKeptWhy) => void;
  readonly keepLostMs: number;
  readonly expireEveryMs: number;
}

/** How often what has become durable everywhere is forgotten. */
const FORGET_MS = 100;
const SWEEP_MS = 1_000;
/** A page that a gateway gets, whose answers may have 16 MiB. One transaction always fits. */
const SEALED_PER_PAGE = 500;
const SEALED_PAGE_BYTES = 4 * 1_048_576;
const ERASURES_MS = 10_000;
/** The losses among which one looks for what another may have read, the oldest first. */
const LOSSES_COMPARED = 10_000;
/** Of these: what gateways announce waits for one such list at most. */
const LISTED_AT_ONCE = 1_000;
const EVERYTHING = { after: 0, sinceMs: 0, contents: null, answered: null, id: null, owner: null };
/** Ids may run ahead of the clocks by a little; the mark of an erasure covers them, too. */
const ERASE_MARGIN_MS = 60_000;

interface LostId {
  readonly id: string;
  readonly owner: bigint;
}

interface LostPage {
  readonly lost: LostTransaction[];
  readonly next: string | null;
}

export class Contents {
  readonly #options: ContentsOptions;
  readonly #stop = new AbortController();
  #store: ContentsStore | null = null;
  #hasSome = true;
  #taken = 0;
  /** As of the last look, which is a second old at most while there are any. */
  totals: ContentsTotals = { transactions: 0, bytes: 0 };
  #forgottenMs = Number.NEGATIVE_INFINITY;
  #isForgetting = false;
  #failures = 0;
  /** Published, and not yet handed to the file. */
  #losses: LostRow[] = [];
  #listing: Promise<void> | null = null;
  /** The thread of the file also takes what gateways announce. */
  readonly #turns = new OwnerTurns({ limit: "lostPages", calls: "pages of losses" });
  /** By the number of the lost row. */
  readonly #orders = new Map<number, Order>();

  constructor(options: ContentsOptions) {
    this.#options = options;
  }

  start(): void {
    void this.#sweep();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#store?.close();
    await this.#listing;
    await this.#options.file.close();
  }

  /** Resolves when what is kept is on disk. Null: all of it is kept. */
  async take(messages: readonly ContentsMessage[]): Promise<AnnouncementsAnswer | null> {
    if (messages.length === 0) return null;
    this.#hasSome = true;
    this.#taken++;
    const all = (await this.#takeAll(messages)).map(({ owner, ...of }) => ({
      ...of,
      ...(owner !== "0" && { owner }),
    }));
    for (const { why } of all) this.#options.onNotKept(why);
    return all.length === 0 ? null : { notKept: all };
  }

  async #takeAll(messages: readonly ContentsMessage[]): Promise<readonly NotKept[]> {
    const { groups, unreadable } = groupsOf(messages);
    const failed = (each: ContentsMessage): NotKept[] => {
      if (each.kind === "answered") return [];
      const [id, epoch] = [each.id.toLowerCase(), each.epoch.toLowerCase()];
      return [{ id, epoch, owner: each.owner ?? "0", why: "failed" }];
    };
    try {
      return [...unreadable.flatMap(failed), ...(await this.#options.file.take(groups))];
    } catch (cause) {
      this.#noteFailure(cause);
      return messages.flatMap(failed);
    }
  }

  #noteFailure(cause: unknown): void {
    if (isLogged(++this.#failures))
      this.#options.log.error("contents_failed", { failures: this.#failures, cause: String(cause) });
  }

  onMarks(): void {
    const nowMs = this.#options.clock.monotonicMs();
    if (!this.#hasSome || this.#isForgetting || nowMs - this.#forgottenMs < FORGET_MS) return;
    this.#forgottenMs = nowMs;
    void this.#forgetDurable();
  }

  onVerdict(published: Published): void {
    if (published.kind !== "write") return;
    const { id, attempt: epoch, owner } = published;
    this.#losses.push({
      owner: String(owner),
      id,
      epoch,
      atMs: Math.floor(this.#options.clock.wallMs()),
      data: JSON.stringify(transactionData(published)),
    });
    this.#listing ??= this.#listLosses();
  }

  /**
   * One write is in flight, and the next one takes everything since: a failover loses thousands.
   */
  async #listLosses(): Promise<void> {
    // What else this turn publishes goes along.
    await Promise.resolve();
    while (this.#losses.length > 0) {
      const rows = this.#losses;
      this.#losses = [];
      try {
        await this.#options.file.lose(rows);
      } catch (cause) {
        this.#noteFailure(cause);
      }
    }
    this.#listing = null;
  }

  /** What all levels have in the current epoch. */
  async #forgetDurable(): Promise<void> {
    const state = this.#options.state();
    const epoch = currentEpoch(state);
    if (epoch === null) return;
    const marks = state.config.levels.map(({ name }) => markIn(state, epoch, name));
    if (marks.some((mark) => mark === null)) return;
    const everywhere = marks.reduce((least, mark) => ((mark ?? 0n) < (least ?? 0n) ? mark : least));
    this.#isForgetting = true;
    const taken = this.#taken;
    try {
      this.totals = await this.#options.file.forgetThrough(epoch, String(everywhere));
      // What was taken meanwhile is not counted yet.
      if (taken === this.#taken) this.#hasSome = this.totals.transactions > 0;
    } catch (cause) {
      this.#noteFailure(cause);
    } finally {
      this.#isForgetting = false;
    }
  }

  async #sweep(): Promise<void> {
    const { clock, expireEveryMs } = this.#options;
    const { signal } = this.#stop;
    let [erasuresMs, expireMs] = [Number.NEGATIVE_INFINITY, clock.monotonicMs()];
    for (; !signal.aborted; await sleep(clock, SWEEP_MS, signal)) {
      const nowMs = clock.monotonicMs();
      try {
        if (this.#hasSome) {
          await this.#forgetDurable();
          await this.#judgeOld();
        }
        if (nowMs - erasuresMs >= ERASURES_MS && (await this.#followErasures())) erasuresMs = nowMs;
        if (nowMs - expireMs >= expireEveryMs) {
          expireMs = nowMs;
          await this.#expire();
        }
      } catch (cause) {
        if (!signal.aborted) this.#noteFailure(cause);
      }
    }
  }

  /**
   * Contents of ended epochs: marks of the current one do not reach their offsets. Returns whether
   * some may be lost, and are not known to be.
   */
  async #judgeOld(): Promise<boolean> {
    const { file } = this.#options;
    const epoch = currentEpoch(this.#options.state());
    if (epoch === null) return true;
    await this.#unpackOld();
    let isOpen = false;
    for (let after: PendingContents | null = null; ;) {
      const some: readonly PendingContents[] = await file.pendingElsewhere(epoch, after);
      const last = some.at(-1);
      if (last === undefined) return isOpen;
      isOpen ||= some.some((each) => this.#judged(each).some(({ rule }) => rule === "R5 being proven"));
      after = last;
      await file.forget(some.filter((each) => this.#verdictOf(each) === "durable"));
      const lost = some.filter((each) => this.#verdictOf(each) === "lost");
      // Their reports were published by a process that ended before it listed them.
      const atMs = Math.floor(this.#options.clock.wallMs());
      await file.lose(lost.map((each) => ({ ...each, atMs, data: this.#dataOf(each) })));
    }
  }

  /** Lists have the contents of ended epochs only where these have rows of their own. */
  async #unpackOld(): Promise<void> {
    while (await this.#options.file.unpackElsewhere(currentEpoch(this.#options.state()) ?? ""));
  }

  async #find(question: LostQuestion): Promise<readonly ListedLost[]> {
    await this.#unpackOld();
    return this.#options.file.list(question);
  }

  /** Durable only at every level; lost at any. */
  #verdictOf(of: PendingContents): "durable" | "lost" | "pending" {
    const verdicts = Object.values(this.#verdictsOf(of));
    if (verdicts.every((verdict) => verdict === "durable")) return "durable";
    return verdicts.some((verdict) => verdict === "lost" || verdict === "broken") ? "lost" : "pending";
  }

  #verdictsOf(of: PendingContents): TransactionEventData["verdicts"] {
    return Object.fromEntries(this.#judged(of).map(({ level, verdict }) => [level, verdict]));
  }

  #judged({ id, owner, epoch, offset }: PendingContents): readonly (Judgement & { level: string })[] {
    const state = this.#options.state();
    const attempt = epoch as EpochId;
    const position = { epoch: attempt, offset: BigInt(offset) as Offset };
    const token = { id: id as TxnId, owner: BigInt(owner), attempt, kind: "write" as const, position };
    return state.config.levels.map(({ name }) => ({ ...judge(state, token, name), level: name }));
  }

  #dataOf(of: PendingContents): string {
    const { id, epoch, offset } = of;
    const data: TransactionEventData = {
      id,
      attempt: epoch,
      position: { epoch, offset },
      verdicts: this.#verdictsOf(of),
      rule: "R6 absent",
    };
    return JSON.stringify(data);
  }

  async #expire(): Promise<void> {
    const timeMs = await this.#options.readTime();
    if (timeMs !== null) await this.#options.file.expire(timeMs - this.#options.keepLostMs);
  }

  /** Erases what was erased at another tracker. Returns whether the marks were read. */
  async #followErasures(): Promise<boolean> {
    const { file, primary, log } = this.#options;
    const node = primary();
    if (node === null) return false;
    for (const { owner, throughMs } of await this.#opened().readErasures(node)) {
      if (await file.isErased(String(owner), throughMs)) continue;
      const erased = await file.erase(String(owner), throughMs);
      log.info("contents_erased", { owner: String(owner), erased });
    }
    return true;
  }

  #opened(): ContentsStore {
    return (this.#store ??= this.#options.store());
  }

  /** Errors: `concurrency_limited`. */
  list(question: LostQuestion): Promise<LostPage> {
    const { owner } = question;
    return this.#turns.take(owner === null ? null : BigInt(owner), () => this.#list(question));
  }

  async #list(question: LostQuestion): Promise<LostPage> {
    const rows = await this.#find({ ...question, limit: question.limit + 1 });
    const page = rows.slice(0, question.limit);
    const next = rows.length > page.length ? String(page.at(-1)?.n) : null;
    return { lost: await this.#listed(page, question.owner), next };
  }

  /** Of one owner, or (null) of any. */
  async #listed(page: readonly ListedLost[], owner: string | null): Promise<LostTransaction[]> {
    if (this.#options.keys === null || page.length === 0) return page.map(lostOf);
    const all = await this.#oldest(owner);
    const others = all.slice(0, LOSSES_COMPARED);
    const dependencies = new Dependencies(await this.#placed(others), others.length === all.length);
    return (await this.#placed(page)).map((row) => {
      const dependsOn = dependencies.of(row);
      return { ...lostOf(row), ...(dependsOn !== undefined && { dependsOn }) };
    });
  }

  /** More than are compared, if there are more. In parts, as `#placed` does it. */
  async #oldest(owner: string | null): Promise<ListedLost[]> {
    const all: ListedLost[] = [];
    while (all.length <= LOSSES_COMPARED) {
      const question = { ...EVERYTHING, owner, after: all.at(-1)?.n ?? 0, limit: LISTED_AT_ONCE };
      const some = await this.#options.file.list(question);
      all.push(...some);
      if (some.length < LISTED_AT_ONCE) break;
    }
    return all;
  }

  /** One after the other: what gateways announce does not wait behind all of them. */
  async #placed(rows: readonly ListedLost[]): Promise<(ListedLost & Placed)[]> {
    const placed: (ListedLost & Placed)[] = [];
    for (const row of rows) placed.push({ ...row, order: await this.#orderOf(row) });
    return placed;
  }

  /** Opens the contents once, and keeps nothing of them but their order. */
  async #orderOf(row: ListedLost): Promise<Order | null> {
    const { file, keys } = this.#options;
    if (row.contents !== "kept" || keys === null) return null;
    const known = this.#orders.get(row.n);
    if (known !== undefined) return known;
    const sealed = await file.sealed(row);
    if (sealed === null) return null;
    try {
      const { order } = openedBy(keys, aboutOf(row, sealed), sealed);
      if (order === undefined) return null;
      if (this.#orders.size >= LOSSES_COMPARED) this.#orders.clear();
      const read = readOrder(order);
      this.#orders.set(row.n, read);
      return read;
    } catch {
      // Their key is gone: to read them fails with that reason.
      return null;
    }
  }

  /**
   * A page of what was lost of all owners, with the contents as their gateway has sealed them.
   * `epoch`: says whether all that was kept and lost before it is listed.
   */
  async listSealed(after: number, epoch?: string): Promise<SealedLost> {
    const { file } = this.#options;
    // Asked first: what is found here is on the page, or behind it.
    const isComplete = epoch === undefined ? undefined : await this.#isComplete(epoch);
    const rows = await this.#find({ ...EVERYTHING, after, limit: SEALED_PER_PAGE });
    const lost: SealedLost["lost"] = [];
    let [bytes, next] = [0, rows.at(-1)?.n ?? null];
    for (const row of rows) {
      const found = row.contents === "kept" ? await file.sealed(row) : null;
      bytes += found?.body.length ?? 0;
      if (bytes > SEALED_PAGE_BYTES && lost.length > 0) break;
      const sealed = found && {
        offset: found.offset,
        text: Buffer.concat([found.wrapped, found.body]).toString("base64url"),
      };
      lost.push({ ...lostOf(row), sealed });
      next = row.n;
    }
    return { lost, next, ...(isComplete !== undefined && { isComplete }) };
  }

  async #isComplete(epoch: string): Promise<boolean> {
    await this.#listing;
    // A tracker that does not see the primary may learn of other epochs yet.
    if (currentEpoch(this.#options.state()) !== epoch || this.#options.primary() === null) return false;
    return !(await this.#judgeOld());
  }

  /**
   * Returns the newest lost attempt under the id, with its contents, after the audit log has the
   * reading. Errors: `not_found`, `keep_unavailable`, `primary_unavailable`, `concurrency_limited`.
   */
  read(of: LostId, principal: Principal): Promise<LostDetails> {
    return this.#turns.take(of.owner, () => this.#read(of, principal));
  }

  async #read(of: LostId, principal: Principal): Promise<LostDetails> {
    const { file, keys } = this.#options;
    const owner = String(of.owner);
    const row = (await this.#find({ ...EVERYTHING, limit: 1_000, id: of.id, owner })).at(-1);
    if (row === undefined) throw new HighwaterError("not_found");
    const sealed = row.contents === "kept" ? await file.sealed(row) : null;
    if (sealed === null) return { ...lostOf(row), kept: null };
    if (keys === null)
      throw new HighwaterError("keep_unavailable", { detail: "HIGHWATER_CONTENTS_KEYS is not set." });
    await this.#inStore((store, node) =>
      store.recordRead(
        node,
        { owner: of.owner, id: row.id, attempt: row.epoch },
        { by: principal.id, reason: null },
      ),
    );
    const kept = openedBy(keys, aboutOf(row, sealed), sealed);
    const [lost = lostOf(row)] = await this.#listed([row], owner);
    return { ...lost, kept };
  }

  /**
   * Erases the owner's contents here at once, and in every other tracker as soon as it reads the
   * mark. Errors: `primary_unavailable`.
   */
  async erase(owner: bigint, act: Act): Promise<ErasedContents> {
    const { clock, log, file } = this.#options;
    const throughMs = Math.floor(clock.wallMs()) + ERASE_MARGIN_MS;
    await this.#inStore((store, node) => store.erase(node, { owner, throughMs }, act));
    const erased = await file.erase(String(owner), throughMs);
    log.info("contents_erased", { owner: String(owner), erased });
    return { owner: String(owner), through: new Date(throughMs).toISOString(), erased };
  }

  async #inStore(work: (store: ContentsStore, node: string) => Promise<void>): Promise<void> {
    const node = this.#options.primary();
    const detail = "The audit log cannot be written now, and it comes first; retry.";
    if (node === null) throw new HighwaterError("primary_unavailable", { detail, retryAfterMs: SWEEP_MS });
    try {
      await work(this.#opened(), node);
    } catch (cause) {
      throw new HighwaterError("primary_unavailable", { detail, retryAfterMs: SWEEP_MS }, { cause });
    }
  }
}

function aboutOf({ owner, id, epoch }: AttemptKey, { offset }: SealedContents): SealedAbout {
  return { owner: BigInt(owner), id, epoch, offset };
}

/** Errors: `keep_unavailable`. */
function openedBy(keys: ContentsKeys, about: SealedAbout, { wrapped, body }: SealedContents): KeptContents {
  try {
    const text = keys.open(about, Buffer.concat([wrapped, body]));
    const kept = validate(KeptContents, JSON.parse(text));
    if (kept.ok) return kept.value;
    throw new Error(`they are of another version: ${kept.faults.join("; ")}`);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const detail = `The contents of ${about.id} cannot be opened: ${why}.`;
    throw new HighwaterError("keep_unavailable", { detail }, { cause });
  }
}

function lostOf({ owner, data, atMs, answered, contents }: ListedLost): LostTransaction {
  const about = JSON.parse(data) as TransactionEventData;
  return { ...about, owner, lostAt: new Date(atMs).toISOString(), answered, contents };
}
