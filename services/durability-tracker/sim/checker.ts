// Holds every word of the trackers against the truth, when it is said and at the end. Knows nothing of how the core decides.
import assert from "node:assert/strict";
import type { EpochId, LevelRule, Offset, TransactionResponse, TxnId, Verdict } from "@highwater/protocol";
import {
  type CoreConfig,
  type LedgerEntry,
  entryKey,
  exposure,
  groundOf,
  isUnchanged,
  judge,
  type Judgement,
  knownMark,
  type Published,
  reachedBits,
} from "../src/core/index.ts";
import { type AnswerWitness, type Held, type Request, short } from "./gateway.ts";
import { type Rec, type SimNode } from "./node.ts";
import { type SimTracker, type Witness } from "./tracker.ts";
import { holds, ownerOf, type Token, type Truth, type Txn } from "./truth.ts";
import { type World } from "./world.ts";

const AT_RISK = new Set(["pending", "unproven", "asked", "absent"]);
type LostState = Extract<LedgerEntry["state"], { kind: "lost" }>;

const UNSETTLED = new Set(["intent", "unproven", "asked", "absent"]);
/** What may be said of a token that has a position and no id. */
const WITHOUT_RECEIPT = new Set<Verdict>(["pending", "durable", "broken", "unknown"]);

export class Checker implements AnswerWitness, Witness {
  readonly #world: World;
  readonly #config: CoreConfig;
  readonly #requests: readonly Request[];
  readonly #truth: Truth;
  /** Kinds of verdicts that were met, with their number. */
  readonly met = new Map<string, number>();
  /** Attempts that any tracker has reported as lost, with the epoch of the first report. */
  readonly lost = new Map<string, EpochId>();

  constructor(world: World, config: CoreConfig, requests: readonly Request[]) {
    this.#world = world;
    this.#config = config;
    this.#requests = requests;
    this.#truth = world.truth;
  }

  #meet(kind: string): void {
    this.met.set(kind, (this.met.get(kind) ?? 0) + 1);
  }

  // ---- when it is said

  /** A mark is true when everything of its epoch at or below is on the disks that its rule asks for, in that epoch. */
  onMark(tracker: SimTracker, epoch: EpochId, level: string, offset: Offset): void {
    const truth = this.#truth.epochs.get(epoch);
    const rule = this.#config.levels.find(({ name }) => name === level)?.rule;
    if (truth === undefined || rule === undefined) return;
    this.#truth.witness(this.#world.nodes);
    const last = truth.log.findLast(({ end }) => end <= offset);
    if (last === undefined) return;
    const what = `${tracker.name}: mark ${String(offset)} of ${level} in ${short(epoch)}`;
    assert.ok(
      this.#truth.wasOnDisk(epoch, last, rule, this.#world.nodes),
      `${what} is above what the disks have`,
    );
  }

  onPublished(tracker: SimTracker, published: Published): void {
    const { standing } = tracker.state.topology;
    const what = `${tracker.name} published ${short(published.id)} of ${short(published.attempt)}`;
    assert.equal(standing.kind, "following", `${what} without a primary`);
    if (standing.kind !== "following") return;
    const unsound = this.#unsound(tracker, published, standing);
    assert.equal(unsound, null, `${what}: ${String(unsound)}`);
    const isBroken = Object.values(published.verdicts).includes("broken");
    this.#meet(isBroken ? "published broken" : "published lost");
    if (published.retriedIn !== null) this.#meet("published retried");
    const key = `${published.id}/${published.attempt}`;
    if (!this.lost.has(key)) this.lost.set(key, standing.epoch);
    this.#free(published, standing.epoch);
    this.#noteReported(tracker, published);
  }

  /** Its event may come later, but a client that asks learns of the loss from now on. */
  onLost(tracker: SimTracker, { id, attempt, owner }: LedgerEntry, loss: LostState): void {
    const { standing } = tracker.state.topology;
    if (standing.kind !== "following" || loss.asOf?.epoch !== standing.epoch) return;
    if (loss.isPublished || loss.reappeared || loss.broken !== 0) return;
    const { settledAt, retriedIn } = loss;
    const unsound = this.#unsound(
      tracker,
      { id, attempt, owner: owner.owner, verdicts: {}, settledAt },
      standing,
    );
    assert.equal(
      unsound,
      null,
      `${tracker.name} reports ${short(id)} of ${short(attempt)} lost: ${String(unsound)}`,
    );
    this.#meet("lost before its event");
    this.#free({ id, retriedIn }, standing.epoch);
  }

  /** Its client learns that it is lost, and would run it again under a new id. */
  #free({ id, retriedIn }: Pick<Published, "id" | "retriedIn">, epoch: EpochId): void {
    // It has been run again, under the same id.
    if (retriedIn !== null) return;
    for (const request of this.#requests) {
      if (!request.ids.includes(id) || request.refused.has(id)) continue;
      request.refused.set(id, epoch);
      request.isFree = request.ids.at(-1) === id;
    }
  }

  /** Why a loss should not have been published: it is in the current history, or its id is not settled there. */
  #unsound(
    tracker: SimTracker,
    published: Pick<Published, "id" | "attempt" | "owner" | "verdicts" | "settledAt">,
    standing: { readonly epoch: EpochId; readonly node: string },
  ): string | null {
    if (this.#truth.heirsOf(standing.epoch).has(published.attempt)) return "its epoch is a later one";
    if (Object.values(published.verdicts).includes("broken")) return null;
    const node = this.#world.named(standing.node);
    const txn = this.#truth.txns.find(
      ({ id, attempt }) => id === published.id && attempt === published.attempt,
    );
    if (txn !== undefined && published.owner !== ownerOf(txn.request)) return "it is told to another owner";
    if (!this.#isFinal(published, standing.epoch)) return "another history that has it may still be kept";
    if (txn?.kind === "read") {
      const token = this.#truth.tokens.find((each) => each.txn === txn);
      const successor = tracker.state.topology.ancestry.find(({ previous }) => previous === txn.attempt);
      const kept =
        successor !== undefined &&
        (token?.position.offset ?? 0n) <= BigInt(successor.forkOffset) &&
        token !== undefined;
      return kept ? "it was carried over" : null;
    }
    if (node?.epoch !== standing.epoch) return null;
    if (txn !== undefined && node.has(txn.rec)) return "it is in the history that reigns";
    const proof = node.receipt(published.id);
    if (proof === undefined) return "its id is not settled";
    const rule = this.#config.levels.find(({ name }) => name === published.settledAt)?.rule;
    if (rule === undefined) return "it is settled at no level";
    this.#truth.witness(this.#world.nodes);
    return this.#truth.everOnDisk(proof, rule, this.#world.nodes) ? null : "its tombstone is not safe there";
  }

  /** Settled where no failover takes it back, or an operator has chosen this history since the two have parted. */
  #isFinal({ attempt, settledAt }: Pick<Published, "attempt" | "settledAt">, epoch: EpochId): boolean {
    const strengthOf = (level: string): number => this.#config.levels.findIndex(({ name }) => name === level);
    if (strengthOf(settledAt) >= strengthOf(this.#config.exposureLevel)) return true;
    return this.#wasChosenOver(epoch, attempt);
  }

  /** Whether an operator has named the history of `epoch` since it parted from that of `other`. */
  #wasChosenOver(epoch: EpochId, other: EpochId): boolean {
    const shared = new Set(this.#truth.historyOf(other));
    const since = this.#truth.historyOf(epoch).filter((id) => !shared.has(id));
    return since.some((id) => this.#world.epochs.isCommanded(id));
  }

  /** A gateway reports to its client that an id never commits. `epoch`: in which it has read the tombstone. */
  onRefused(id: TxnId, epoch: EpochId): void {
    const truth = this.#truth.epochs.get(epoch);
    const isProof = (rec: Rec): boolean => rec.kind === "receipt" && rec.id === id && rec.says !== "commit";
    const proof = truth?.log.find(isProof) ?? [...(truth?.before ?? [])].find(isProof);
    const what = `${short(id)} was refused in ${short(epoch)}`;
    assert.ok(proof?.kind === "receipt", `${what}, and there is no tombstone`);
    const rule = this.#config.levels.find(({ name }) => name === this.#config.exposureLevel)?.rule;
    const isChosen = proof.says === "lost" && this.#world.epochs.isCommanded(epoch);
    assert.ok(isChosen || this.#isOnDisk(proof, rule), `${what}, and its tombstone can still be lost`);
    this.#meet("refused");
  }

  /** A gateway answers its client. */
  onAnswered(id: TxnId, attempt: EpochId, { state, level, announced }: TransactionResponse): void {
    const what = `${short(id)} of ${short(attempt)}`;
    const { txns, announcedTo } = this.#truth;
    const isAnswered = [...announcedTo.keys()].some((key) => key.includes(`/${id}/`));
    assert.ok(!announced || isAnswered, `${what} was answered as announced, and no tracker has its id`);
    this.#meet(`answered ${state}`);
    if (state !== "durable") return;
    const txn = txns.find((each) => each.id === id && each.attempt === attempt);
    const rule = this.#config.levels.find(({ name }) => name === level)?.rule;
    assert.ok(
      txn !== undefined && this.#isOnDisk(txn.rec, rule),
      `${what} was answered as durable at ${String(level)}, and is not on the disks`,
    );
  }

  /** The PostgreSQL wire answers a commit that it has held. */
  onReleased({ rec, level, by }: Held): void {
    const rule = this.#config.levels.find(({ name }) => name === level)?.rule;
    this.#meet("held answer released");
    assert.ok(
      this.#isOnDisk(rec, rule),
      `${by} released the answer to a commit up to ${String(rec.end)} at ${level}, which is not on the disks`,
    );
  }

  #isOnDisk(rec: Rec, rule: LevelRule | undefined): boolean {
    this.#truth.witness(this.#world.nodes);
    return rule !== undefined && this.#truth.everOnDisk(rec, rule, this.#world.nodes);
  }

  /**
   * The content of a webhook binds like an answer to a client. It cannot know what a client has read off the marks while the
   * ledger did not know the position in its token (SPEC, R7): then both were said, and only `broken` is left.
   */
  #noteReported(tracker: SimTracker, { id, owner, attempt, verdicts }: Published): void {
    for (const token of this.#truth.tokens) {
      if (token.txn.id !== id || token.txn.attempt !== attempt) continue;
      const { position } = token;
      for (const [level, verdict] of Object.entries(verdicts)) {
        const key = keyOf(token, level);
        const before = tracker.reported.get(key)?.verdict ?? verdict;
        if (!tracker.reported.has(key)) this.#meet(token.txn.kind === "read" ? `read ${verdict}` : verdict);
        const origin = tracker.state.ledger.entries.get(entryKey({ id, owner }, attempt))?.origin;
        const isAtOrigin = origin?.epoch === position.epoch && origin.offset === position.offset;
        const what = `${tracker.name}: ${describe(token, level)}: ${before} -> ${verdict} as published`;
        if (verdict !== before && isAtOrigin) checkChange(tracker, before, verdict, "", what);
        if (verdict === "broken" || before !== "durable")
          tracker.reported.set(key, { verdict, isVolatile: true });
      }
    }
  }

  // ---- after every operation

  #judge(tracker: SimTracker, { txn, position }: Token, level: string): Judgement {
    const { id, attempt, kind } = txn;
    const parent = this.#truth.parentOf(position.epoch);
    const token = { id, owner: ownerOf(txn.request), attempt, kind, position, parent };
    const judged = judge(tracker.state, token, level);
    this.#checkGround(tracker, token, level, judged);
    // A shell that answers with what only the ledger knows informs the core.
    if (judged.verdict !== "durable" || !judged.needsProof) return judged;
    const { nowMs } = tracker.state;
    const says = { tokenKind: kind, position, parent, owner: ownerOf(txn.request) };
    tracker.send({ kind: "token_presented", nowMs, id, attempt, ...says });
    return judge(tracker.state, token, level);
  }

  /** A client that waits is not judged again before what its verdict rests on has changed: that must never hide a verdict. */
  #checkGround(
    tracker: SimTracker,
    token: Parameters<typeof groundOf>[1],
    level: string,
    judged: Judgement,
  ): void {
    const { state, grounds } = tracker;
    const key = `${token.id}/${token.attempt}/${String(token.position.offset)}/${level}`;
    const ground = grounds.get(key);
    if (ground != null && isUnchanged(state, ground, level))
      assert.ok(judged.verdict === "pending" && !judged.needsProof, `${key} has become ${judged.verdict}`);
    grounds.set(key, judged.verdict === "pending" ? groundOf(state, token) : null);
  }

  checkTracker(tracker: SimTracker): void {
    tracker.isDirty = false;
    const { reported } = tracker;
    for (const token of this.#truth.tokens) {
      for (const { name, rule } of this.#config.levels) {
        const { verdict, rule: why } = this.#judge(tracker, token, name);
        const key = keyOf(token, name);
        const known = reported.get(key);
        const before = known?.verdict;
        if (verdict === before || (verdict === "pending" && before === undefined)) continue;
        const what = `${tracker.name}: ${describe(token, name)}: ${String(before)} -> ${verdict} by ${why}`;
        if (verdict === "durable" && !this.#isStray(token))
          assert.ok(
            this.#truth.everOnDisk(token.txn.rec, rule, this.#world.nodes),
            `not on the disks that the level asks for: ${what}`,
          );
        const { kind } = token.txn;
        if (kind === "position") assert.ok(WITHOUT_RECEIPT.has(verdict), what);
        // Of what no ledger holds, these two say nothing that binds: its history may be current again. And of what was durable
        // nothing can be said where it is not known how far the epoch's log goes.
        const isFree =
          kind === "position" &&
          (before === "unknown" ||
            before === "broken" ||
            (verdict === "unknown" && isEndless(tracker, token)));
        if (before !== undefined && !isFree) checkChange(tracker, before, verdict, why, what);
        if (verdict === "pending") continue;
        reported.set(key, { verdict, isVolatile: true });
        this.#meet(kind === "write" ? verdict : `${kind} ${verdict}`);
      }
    }
    checkExposure(tracker);
  }

  /** What is shared of an ended epoch's marks is all that any of its places was durable by: two answers of the core agree. */
  #checkKnownMarks({ name, state }: SimTracker, { txn, position }: Token): void {
    const bits = reachedBits(state, position);
    for (const [index, level] of this.#config.levels.entries()) {
      const mark = knownMark(state, position.epoch, level.name);
      const isKnown = mark !== null && mark >= position.offset;
      assert.equal(
        (bits & (1 << index)) !== 0,
        isKnown,
        `${name}: ${describe({ n: 0, txn, position }, level.name)}`,
      );
    }
  }

  /**
   * A primary that was put back to an older copy has written over the end of an epoch's log, and was then recovered once more, or
   * another node was promoted from that, before anybody had begun an epoch. Nothing in that history says so, and a read has no
   * receipt (SPEC, R3).
   */
  #isHidden({ txn }: Token, ruler: SimNode): boolean {
    return txn.kind !== "write" && ruler.log.some((rec) => this.#truth.hiddenStrays.has(rec));
  }

  #isStray(token: Token): boolean {
    return this.#world.nodes.some((node) => this.#isHidden(token, node));
  }

  // ---- at the end

  /** `ruler`: the node that everybody follows in the end. */
  checkEnd(trackers: readonly SimTracker[], ruler: SimNode): void {
    this.#checkForks();
    this.#checkEffects(ruler);
    for (const tracker of trackers) {
      this.#checkLedger(tracker);
      for (const token of this.#truth.tokens) {
        this.#checkToken(tracker, token, ruler);
        this.#checkKnownMarks(tracker, token);
      }
      this.#checkSettled(tracker, ruler);
    }
    this.#checkAnnounced(trackers, ruler);
    for (const token of this.#truth.tokens) this.#checkAgreement(trackers, token);
  }

  /** All trackers say the same: what one has reported, another reports. */
  #checkAgreement(trackers: readonly SimTracker[], token: Token): void {
    for (const { name, rule } of this.#config.levels) {
      // Of another node's history it promises nothing: a tracker that saw it there may say so, and one that did not may call it lost.
      if ("primary" in rule && this.#movedAway(token)) continue;
      const verdicts = trackers.map((tracker) => this.#judge(tracker, token, name));
      const [first, ...others] = comparable(
        token,
        verdicts.map(({ verdict }) => verdict),
      );
      const said = verdicts.map(({ verdict, rule }, n) => `${String(n + 1)}: ${verdict} by ${rule}`);
      for (const other of others)
        assert.equal(other, first, `${describe(token, name)}: trackers disagree: ${said.join(", ")}`);
    }
  }

  /** What an epoch's record says of its predecessor's log is true of the history that it begins. */
  #checkForks(): void {
    for (const { record, before } of this.#truth.epochs.values()) {
      const old = this.#truth.epochs.get(record.previous as EpochId);
      if (old === undefined) continue;
      const fork = BigInt(record.forkOffset);
      const limit = record.forkLimit === null ? null : BigInt(record.forkLimit);
      for (const rec of old.log) {
        const what = `${rec.kind} at ${String(rec.end)} of ${short(old.record.id)} and ${short(record.id)}, fork ${String(fork)}`;
        if (rec.end <= fork) assert.ok(before.has(rec), `carried over, and not in the history: ${what}`);
        if (limit !== null && rec.end > limit)
          assert.ok(!before.has(rec), `above the limit, and in the history: ${what}`);
      }
    }
  }

  /** Nothing that was asked for once has happened twice, unless an operator gave up the history in which it was reported as lost. */
  #checkEffects(ruler: SimNode): void {
    const ruling = new Set<string>(ruler.epochRecs.map(({ record }) => record.id));
    const done = new Map<number, string[]>();
    for (const rec of ruler.log) {
      if (rec.kind !== "receipt" || rec.says !== "commit") continue;
      const ids = done.get(rec.request) ?? [];
      assert.ok(!ids.includes(rec.id), `${short(rec.id)} happened twice`);
      done.set(rec.request, [...ids, rec.id]);
    }
    for (const [n, ids] of done) {
      if (ids.length < 2) continue;
      const refused = this.#requests.find((request) => request.n === n)?.refused;
      const excused = ids.filter((id) => {
        const epoch = refused?.get(id as never);
        if (epoch === undefined || ruling.has(epoch)) return false;
        return ruler.epoch !== null && this.#wasChosenOver(ruler.epoch, epoch);
      });
      assert.ok(
        excused.length >= ids.length - 1,
        `request ${String(n)} happened twice: ${ids.map(short).join(", ")}`,
      );
    }
  }

  #checkToken(tracker: SimTracker, token: Token, ruler: SimNode): void {
    const { txn } = token;
    const present = ruler.has(txn.rec);
    const wasLost = this.lost.has(`${txn.id}/${txn.attempt}`);
    for (const { name, rule } of this.#config.levels) {
      const { verdict, rule: why } = this.#judge(tracker, token, name);
      const what = `${tracker.name}: ${describe(token, name)} is ${verdict} by ${why}`;
      // By now every node follows the ruler, and has all of it on disk.
      const isReachable = holds(rule, ruler.site, this.#world.nodes, ({ unfit }) => !unfit);
      if (isReachable) assert.notEqual(verdict, "pending", what);
      if (present && verdict === "lost" && txn.kind === "write")
        assert.fail(`${what}, and it is in the history`);
      if (present && verdict === "broken" && txn.kind === "write") assert.ok(wasLost, what);
      if (present && verdict !== "broken" && this.#hasReported(tracker, token))
        assert.fail(`${what}, and the same tracker has reported it lost`);
      if (!present && verdict === "durable" && !this.#isHidden(token, ruler)) {
        assert.ok("primary" in rule, `${what}, and it is not in the history`);
        assert.ok(this.#movedAway(token), `${what}, and its own node has lost it`);
      }
      if (verdict === "broken" && (!present || txn.kind === "position"))
        assert.ok(wasLost || this.#truth.everOnDisk(txn.rec, rule, this.#world.nodes), what);
    }
  }

  #hasReported(tracker: SimTracker, { txn }: Token): boolean {
    if (txn.kind !== "write" || tracker.isTorn) return false;
    const held = tracker.state.ledger.entries.get(
      entryKey({ id: txn.id, owner: ownerOf(txn.request) }, txn.attempt),
    );
    return held?.state.kind === "lost" && !held.state.reappeared && held.state.broken === 0;
  }

  #movedAway({ txn }: Token): boolean {
    const born = this.#truth.epochs.get(txn.attempt)?.record.node;
    return [...this.#truth.epochs.values()].some(({ record }) => record.node !== born);
  }

  /** The ledger has drawn every consequence of the marks, and keeps nothing that waits for nothing. */
  #checkLedger(tracker: SimTracker): void {
    const { state } = tracker;
    const levels = this.#config.levels;
    for (const entry of state.ledger.entries.values()) {
      const { key, state: at, reached } = entry;
      const what = `${tracker.name}: ${key}`;
      assert.ok(!UNSETTLED.has(at.kind), `${what} is still ${at.kind}`);
      assert.ok(at.kind !== "lost" || at.isPublished, `${what} is gone, and has no event`);
      if (at.kind !== "pending" || at.position.epoch !== state.topology.ancestry.at(-1)?.id) continue;
      for (const [index, { name }] of levels.entries()) {
        const mark = tracker.marks.get(`${at.position.epoch}/${name}`);
        if (mark !== undefined && mark >= at.position.offset)
          assert.ok(
            (reached & (1 << index)) !== 0,
            `${what} has reached ${name}, and the tracker has not noticed`,
          );
      }
      if (reached !== (1 << levels.length) - 1) continue;
      assert.ok(state.ledger.finished.has(key), `${what} is done, and stays for ever`);
      assert.ok(
        tracker.hasForgotten || !isKnownByToken(tracker, entry),
        `${what} is done, its token answers for it, and it stays`,
      );
    }
  }

  /** A transaction that a tracker has reported as lost can never commit in the current history. */
  #checkSettled(tracker: SimTracker, ruler: SimNode): void {
    for (const { id, kind, state } of tracker.state.ledger.entries.values()) {
      if (state.kind !== "lost" || kind === "read") continue;
      assert.ok(ruler.receipt(id) !== undefined, `${tracker.name}: ${short(id)} is gone, and not settled`);
    }
  }

  /** Nothing is forgotten: a tracker that knew of a commit that is lost now has reported it. */
  #checkAnnounced(trackers: readonly SimTracker[], ruler: SimNode): void {
    const { txns, announcedTo, unannounced, settled } = this.#truth;
    for (const txn of txns) {
      const { kind, id, attempt, rec } = txn;
      if (kind === "read" || ruler.has(rec)) continue;
      const what = `${short(id)} of ${short(attempt)}`;
      const runAgain = txns.some((other) => other.id === id && other.attempt !== attempt);
      const of = trackers.map(({ n }) => announcedTo.get(`${String(n)}/${id}/${attempt}`));
      assert.ok(
        unannounced.has(`${id}/${attempt}`) || of.some((announcers) => announcers !== undefined),
        `${what} committed, and no tracker had received it before`,
      );
      for (const [n, tracker] of trackers.entries()) {
        // Known by its intent alone, it counts as never committed once its gateway or its client has gone on without it.
        const isAnnounced = of[n] !== undefined && !settled.has(id) && !runAgain;
        const isExpected = of[n] === "position" || isAnnounced;
        if (tracker.isTorn || !isExpected) continue;
        const reported = tracker.published.some((each) => each.id === id && each.attempt === attempt);
        assert.ok(
          reported || this.#isReportedByRange(tracker, txn),
          `${tracker.name} never reported the loss of ${what}`,
        );
      }
    }
  }

  /** Attempts that every level had, and that have no token, have left the ledger: the range of the broken promise covers them. */
  #isReportedByRange({ brokenPromises }: SimTracker, txn: Txn): boolean {
    if (this.#truth.tokens.some((token) => token.txn === txn)) return false;
    const { attempt, rec } = txn;
    const covers = brokenPromises.filter(
      ({ epoch, from, to }) => epoch === attempt && from < rec.end && rec.end <= to,
    );
    return this.#config.levels.every(
      ({ name, rule }) => "primary" in rule || covers.some(({ level }) => level === name),
    );
  }
}

/** Without a receipt a mark of a history that was given up is known to those alone that have seen it. */
function comparable({ txn }: Token, verdicts: readonly Verdict[]): readonly Verdict[] {
  if (txn.kind !== "position" || !verdicts.includes("broken")) return verdicts;
  return verdicts.filter((verdict) => verdict !== "unknown");
}

/** The history that goes on from the token's epoch does not say where it left that epoch's log. */
function isEndless({ state }: SimTracker, { position }: Token): boolean {
  const successor = state.topology.ancestry.find(({ previous }) => previous === position.epoch);
  return successor?.forkLimit === null;
}

const keyOf = ({ n }: Token, level: string): string => `${String(n)}/${level}`;

function describe({ txn, position }: Token, level: string): string {
  const { kind, id, attempt } = txn;
  return `${kind} ${short(id)} of ${short(attempt)} at ${String(position.offset)} in ${short(position.epoch)}, ${level}`;
}

function checkChange(
  tracker: SimTracker,
  before: Verdict,
  verdict: Verdict,
  why: string,
  what: string,
): void {
  if (verdict === "broken") return;
  if (verdict === "pending") assert.ok(tracker.isHushed || why.startsWith("R5"), `taken back: ${what}`);
  else assert.fail(`a verdict changed: ${what} (before: ${before})`);
}

/** The marks and what is carried over say of its token what they say of the entry: that every level has it. */
function isKnownByToken(
  { state }: SimTracker,
  { id, attempt, kind, origin, owner, hasOtherTokens }: LedgerEntry,
): boolean {
  if (origin?.epoch !== attempt || hasOtherTokens) return false;
  const unheld = { id, owner: owner.owner, attempt, kind, position: origin, key: "" };
  return state.config.levels.every(({ name }) => judge(state, unheld, name).verdict === "durable");
}

/** What is counted as things happen is what counting would find, and nothing is held twice. */
function checkExposure(tracker: SimTracker): void {
  const { entries, backlog } = tracker.state.ledger;
  const { config, levelBits } = tracker.state;
  const bit = levelBits.get(config.exposureLevel) ?? 0;
  let total = 0;
  for (const item of backlog) {
    const of = { id: item.id, owner: item.owner.owner };
    const isHeld = backlog.epoch !== null && entries.has(entryKey(of, backlog.epoch));
    assert.ok(!isHeld, `${item.id} is held twice`);
    if (!backlog.hasReached(item, config.exposureLevel)) total++;
  }
  for (const { state: at, announced, kind, reached } of entries.values())
    if (AT_RISK.has(at.kind) && announced && kind === "write" && (reached & bit) === 0) total++;
  const what = `${tracker.name}: the book of what is at risk`;
  assert.equal(tracker.state.exposure.total, total, what);
  const reported = exposure(tracker.state);
  const byOwner = Object.values(reported.byOwner).reduce((sum, count) => sum + count, 0);
  assert.equal(byOwner, total, `${what}, by owner`);
  assert.equal(reported.oldestMs === null, total === 0, `${what}, its age`);
}
