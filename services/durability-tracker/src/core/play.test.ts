// Plays a script of small operations on a world, shows a tracker what it would hear, and holds every verdict against the
// truth. Holds no tests; world.prop.test.ts chooses the scripts.
import assert from "node:assert/strict";
import { type EpochId, type Offset, type Verdict } from "@highwater/protocol";
import { Disk } from "./disk.test.ts";
import {
  type CoreConfig,
  type Effect,
  exposure,
  initialState,
  judge,
  markIn,
  type Published,
  reachableLevels,
  restore,
  step,
  type TrackerEvent,
  type TrackerState,
} from "./index.ts";
import { type Op } from "./ops.test.ts";
import { type Txn, World, type WorldNode } from "./world.test.ts";

type Read = Extract<Effect, { kind: "read_receipts" }>;
type Announced = Extract<TrackerEvent, { kind: "announced" }>["items"][number];

export interface Rules {
  /** Share of the events that never arrive. */
  readonly losesEvents: boolean;
  /** Marks may be lost with the process: then nobody remembers what was promised by them. */
  readonly forgetsMarks: boolean;
}

export class Play {
  readonly world: World;
  readonly config: CoreConfig;
  readonly rules: Rules;
  state: TrackerState;
  nowMs = 1_000;
  readonly held: TrackerEvent[] = [];
  readonly announcements: Announced[] = [];
  reads: Read[] = [];
  readonly published: { readonly what: Published; readonly sound: string | null }[] = [];
  readonly told = new Map<string, Verdict>();
  /** After a restart of the tracker it may be silent on what it had settled, until it has heard of the epoch again. */
  hushed = false;
  amnesia = false;
  #peace = false;
  readonly marks = new Map<string, Offset>();
  readonly disk: Disk;

  constructor(config: CoreConfig, rules: Rules, unfit: string | null) {
    this.config = config;
    this.rules = rules;
    this.world = new World(config.nodes, unfit);
    this.state = initialState(config, this.nowMs);
    this.disk = new Disk(this.state);
  }

  // ---- what the tracker hears

  send(event: TrackerEvent): void {
    const { effects } = step(this.state, event);
    for (const effect of effects) this.#carryOut(effect);
    this.#checkMarks();
  }

  #carryOut(effect: Effect): void {
    const { disk, state } = this;
    switch (effect.kind) {
      case "save_marks":
        if (!this.rules.forgetsMarks || this.nowMs % 3 === 0) disk.take(effect, state);
        return;
      case "read_receipts":
        this.reads.push(effect);
        return;
      case "publish_verdict":
        assert.equal(state.standing.kind, "reigning", "nothing is published while nobody reigns");
        this.published.push({ what: effect.published, sound: this.#unsound(effect.published) });
        this.#noteTold(effect.published);
        return;
      case "publish_marks":
        assert.equal(state.standing.kind, "reigning", "no marks are published while nobody reigns");
        return;
      case "publish_epochs":
      case "help_flush":
        return;
      default:
        disk.take(effect, state);
    }
  }

  /** Why a loss should not have been published: it is in the history that reigns, or its id is not settled there. */
  #unsound(published: Published): string | null {
    const { standing } = this.state;
    if (standing.kind !== "reigning") return "nobody reigns";
    const epoch = this.world.epochs.get(published.attempt);
    const heirs = this.world.heirsOf(standing.epoch);
    if (epoch !== undefined && heirs.has(published.attempt)) return "its epoch is a later one";
    if (Object.values(published.verdicts).includes("broken")) return null;
    const node = this.world.named(standing.node);
    const txn = this.world.txns.find(
      ({ id, attempt }) => id === published.id && attempt === published.attempt,
    );
    if (txn?.kind === "read") {
      const successor = this.state.ancestry.find(({ previous }) => previous === txn.attempt);
      const kept = successor !== undefined && (txn.offset ?? 0n) <= BigInt(successor.forkOffset);
      return kept ? "it was carried over" : null;
    }
    if (node.epoch !== standing.epoch) return null;
    if (txn !== undefined && this.world.contains(node, txn)) return "it is in the history that reigns";
    const proof = node.receipt(published.id);
    if (proof === undefined) return "its id is not settled";
    const rule = this.config.levels.find(({ name }) => name === published.settledAt)?.rule;
    if (rule === undefined || !this.world.everOnDisk(proof, rule)) return "its tombstone is not safe there";
    return null;
  }

  /**
   * What a webhook says binds like an answer to whoever asks. It cannot know what a client has read off the marks while
   * the ledger did not know the place that its token tells (SPEC, R7): then both were said, and only `broken` is left.
   */
  #noteTold({ id, attempt, verdicts }: Published): void {
    for (const txn of this.world.txns) {
      if (txn.id !== id || txn.attempt !== attempt) continue;
      for (const [level, verdict] of Object.entries(verdicts)) {
        const key = `${id}/${attempt}/${txn.kind}/${level}`;
        const before = this.told.get(key) ?? verdict;
        const origin = this.state.entries.get(`${id}/${attempt}`)?.origin;
        const isPlaced = origin?.epoch === attempt && origin.offset === txn.offset;
        const what = `${key}: ${before} -> ${verdict} as published`;
        if (verdict !== before && isPlaced) this.#checkChange(before, verdict, "", what);
        if (verdict === "broken" || before !== "durable") this.told.set(key, verdict);
      }
    }
  }

  #checkMarks(): void {
    for (const [epoch, levels] of this.state.marks)
      for (const [level, offset] of levels) {
        const key = `${epoch}/${level}`;
        assert.ok(offset >= (this.marks.get(key) ?? 0n), `the mark of ${level} went down`);
        this.marks.set(key, offset);
      }
  }

  #hear(event: TrackerEvent, hold: boolean): void {
    this.nowMs++;
    if (this.rules.losesEvents && !this.#peace && this.nowMs % 4 === 0) return;
    if (hold) this.held.push(event);
    else this.send({ ...event, nowMs: ++this.nowMs });
  }

  probe(node: WorldNode, hold: boolean): void {
    const { world } = this;
    this.#hear(
      {
        kind: "node_reported",
        nowMs: this.nowMs,
        askedAtMs: this.nowMs,
        node: node.site.id,
        role: node.role,
        incarnation: String(node.incarnation),
        epochs: node.epochs,
        unfit: node.unfit,
        upstream: node.role === "replica" ? world.upstreamOf(node) : null,
      },
      hold,
    );
  }

  positions(hold: boolean): void {
    const { standing } = this.state;
    if (standing.kind !== "reigning") return;
    const node = this.world.named(standing.node);
    if (node.role !== "primary" || node.epoch === null) return;
    this.#hear(
      {
        kind: "positions_reported",
        nowMs: this.nowMs,
        askedAtMs: this.nowMs,
        node: node.site.id,
        epoch: node.epoch,
        flushed: node.flushedEnd as Offset,
        replicas: this.world.positionsOf(node),
      },
      hold,
    );
  }

  reigns(): void {
    const { ruler } = this.world;
    if (ruler.epoch === null) return;
    if (!this.state.epochs.has(ruler.epoch)) this.probe(ruler, false);
    this.#hear({ kind: "epoch_reigns", nowMs: this.nowMs, epoch: ruler.epoch, node: ruler.site.id }, false);
  }

  answer(hold: boolean): void {
    const [read] = this.reads.splice(0, 1);
    if (read === undefined) return;
    const node = this.world.named(read.node);
    const { nowMs } = this;
    if (node.role !== "primary" || node.epoch !== read.epoch) {
      this.send({ kind: "receipts_unread", nowMs: ++this.nowMs, request: read.request });
      return;
    }
    const receipts = this.world.settle(node, read.ids, read.tombstone);
    this.world.witness();
    const event: TrackerEvent = {
      kind: "receipts_read",
      nowMs,
      request: read.request,
      epoch: read.epoch,
      asOf: node.end as Offset,
      receipts,
    };
    if (hold) this.held.push(event);
    else this.send({ ...event, nowMs: ++this.nowMs });
  }

  announce(at: number, again: boolean): void {
    const item = this.announcements[at % Math.max(1, this.announcements.length)];
    if (item === undefined) return;
    if (!again) this.announcements.splice(at % this.announcements.length, 1);
    this.#hear({ kind: "announced", nowMs: this.nowMs, items: [item] }, false);
  }

  present(txn: Txn): void {
    if (txn.offset === null) return;
    const place = { epoch: txn.attempt, offset: txn.offset };
    const token = { id: txn.id, attempt: txn.attempt, kind: txn.kind, place };
    const level = this.config.levels.at(-1)?.name ?? "";
    if (!judge(this.state, token, level).needsProof) return;
    const { id, attempt, kind } = txn;
    this.send({ kind: "token_presented", nowMs: ++this.nowMs, id, attempt, tokenKind: kind, place });
  }

  restart(): void {
    const { disk, rules } = this;
    this.state = restore(this.config, ++this.nowMs, disk.read());
    this.reads = [];
    this.hushed = true;
    if (rules.forgetsMarks) {
      this.amnesia = true;
      this.marks.clear();
    }
  }

  // ---- what happens in the world

  play(op: Op): void {
    if (op.op === "rest") return;
    this.#do(op);
    this.check();
  }

  /** Whole scenes, so that scripts get anywhere: the same operations, one after the other. */
  #scene(a: number, b: number, ...names: Op["op"][]): void {
    for (const [index, op] of names.entries()) this.#do({ op, a: a + index, b: b + index });
  }

  #do(op: Op): void {
    this.#happen(op);
    this.world.witness();
  }

  #happen({ op, a, b }: Op): void {
    const { world } = this;
    const node = world.node(a);
    switch (op) {
      case "rest":
        break;
      case "commit":
      case "commitAnywhere":
      case "retry": {
        const at = op === "commitAnywhere" ? node : world.ruler;
        const before = op === "retry" ? world.txns[a % Math.max(1, world.txns.length)] : undefined;
        const txn = world.commit(at, 1 + (b % 40), before);
        if (txn !== null && b % 3 !== 0)
          this.announcements.push({ kind: "intent", id: txn.id, epoch: txn.attempt });
        break;
      }
      case "read":
        world.read(b % 4 === 0 ? node : world.ruler);
        break;
      case "intent":
        if (world.ruler.epoch !== null)
          this.announcements.push({ kind: "intent", id: world.newId(), epoch: world.ruler.epoch });
        break;
      case "acknowledge": {
        const open = world.txns.filter(({ offset }) => offset === null);
        const txn = open[a % Math.max(1, open.length)];
        if (txn?.kind === undefined || !world.acknowledge(txn) || txn.offset === null) break;
        if (txn.kind === "write" && b % 4 !== 0)
          this.announcements.push({ kind: "position", id: txn.id, epoch: txn.attempt, offset: txn.offset });
        break;
      }
      case "noise":
        world.noise(b % 3 === 0 ? node : world.ruler, 1 + (b % 50));
        break;
      case "flush":
        world.flush(b % 3 === 0 ? node : world.ruler, 1 + (b % 6));
        break;
      case "stream":
        world.stream(node, 1 + (b % 8));
        break;
      case "connect":
        world.connect(node, b % 4 === 0 ? world.node(b) : world.ruler);
        break;
      case "cut":
      case "linger":
        world.cut(node, op === "linger");
        break;
      case "reap":
        world.reap();
        break;
      case "restartReplica":
        if (node.role === "replica") world.restart(node, true);
        break;
      case "clone":
        world.clone(node, b % 10, b % 2 === 0);
        break;
      case "crash":
      case "cleanRestart":
        world.restart(b % 4 === 0 && node.role === "primary" ? node : world.ruler, op === "cleanRestart");
        break;
      case "promote":
        // Without a command only a node whose history contains the ruler's newest epoch may follow it.
        if (node.role === "replica" && node.epochs.some(({ id }) => id === world.ruler.epochs.at(-1)?.id))
          world.promote(node);
        break;
      case "command":
        if (node !== world.ruler && node.epochs.length > 0) {
          world.promote(node);
          this.mint(b, true);
        }
        break;
      case "mint":
        if (world.ruler.epoch === null) this.mint(b, false);
        break;
      case "reigns":
        this.reigns();
        break;
      case "unsettle":
        this.#hear(
          { kind: "authority_unsettled", nowMs: this.nowMs, reason: "test", split: b % 2 === 0 },
          false,
        );
        break;
      case "positions":
      case "holdPositions":
        this.positions(op === "holdPositions");
        break;
      case "probe":
      case "holdProbe":
        this.probe(node, op === "holdProbe");
        break;
      case "deliver":
      case "repeat": {
        const event = this.held[a % Math.max(1, this.held.length)];
        if (event === undefined) break;
        if (op === "deliver") this.held.splice(a % this.held.length, 1);
        this.send({ ...event, nowMs: ++this.nowMs });
        break;
      }
      case "announce":
        this.announce(a, b % 4 === 0);
        break;
      case "present": {
        const txn = world.txns[a % Math.max(1, world.txns.length)];
        if (txn !== undefined) this.present(txn);
        break;
      }
      case "answer":
      case "holdAnswer":
        this.answer(op === "holdAnswer");
        break;
      case "helped":
        this.send({ kind: "flush_helped", nowMs: ++this.nowMs });
        break;
      case "tick":
        this.nowMs += b * 3;
        this.send({ kind: "ticked", nowMs: ++this.nowMs });
        break;
      case "restart":
        this.restart();
        break;
      case "look":
        for (let round = 0; round < 2; round++) {
          for (const each of world.nodes) this.probe(each, false);
          this.positions(false);
        }
        break;
      case "catchUp":
        world.flush(world.ruler, 1_000);
        for (const each of world.nodes) world.stream(each, 1 + (b % 20));
        world.witness();
        this.positions(false);
        break;
      case "failover": {
        const fit = world.nodes.filter(
          ({ role, epochs }) => role === "replica" && epochs.at(-1)?.id === world.ruler.epochs.at(-1)?.id,
        );
        const next = fit[a % Math.max(1, fit.length)];
        if (next === undefined) break;
        world.promote(next);
        this.#scene(a, b, "noise", "mint", "reigns");
        break;
      }
      case "rejoin":
        for (const each of world.nodes) {
          if (each === world.ruler) continue;
          if (each.role === "primary" || !world.follows(each, world.ruler)) world.clone(each, b % 10, false);
          world.connect(each, world.ruler);
        }
        break;
      case "follow":
        // Whatever they have on their disks: some of them cannot follow, and look as if they did.
        for (const each of world.nodes) world.connect(each, world.ruler);
        break;
      case "close":
        // Everything that is open gets its answer.
        for (let open = this.reads.length; open > 0; open--) this.answer(false);
        this.#scene(a, b, "look", "catchUp", "tick");
        break;
      case "revert":
        this.#scene(a, b, "command", "reigns", "rejoin");
        break;
      case "crashOver":
        this.#scene(a, b, "crash", "noise", "mint", "reigns");
        break;
      case "busy":
        this.#scene(
          a,
          b,
          "commit",
          "read",
          "commit",
          "noise",
          "acknowledge",
          "acknowledge",
          "announce",
          "commit",
        );
        break;
    }
  }

  mint(b: number, commanded: boolean): void {
    const { world, state } = this;
    const previous = world.ruler.epochs.at(-1)?.id;
    const told = b % 2 === 0 && state.ancestry.at(-1)?.id === previous;
    const marks = told
      ? (state.marks.get(previous as EpochId) ?? new Map<string, Offset>())
      : new Map<string, Offset>();
    const own = new Set(world.ruler.epochs.map(({ id }) => id));
    world.mint({
      share: (b * 7) % 1001,
      limited: b % 3 !== 0,
      marks: Object.fromEntries([...marks].map(([level, offset]) => [level, String(offset)])),
      commanded,
      supersedes: commanded ? [...world.epochs.keys()].filter((id) => !own.has(id)) : [],
    });
  }

  // ---- what must hold

  verdict(txn: Txn, level: string): ReturnType<typeof judge> {
    const place = { epoch: txn.attempt, offset: txn.offset ?? (0n as Offset) };
    return judge(this.state, { id: txn.id, attempt: txn.attempt, kind: txn.kind, place }, level);
  }

  check(): void {
    for (const txn of this.world.txns) {
      if (txn.offset === null) continue;
      for (const { name, rule } of this.config.levels) {
        const { verdict, rule: why } = this.verdict(txn, name);
        const key = `${txn.id}/${txn.attempt}/${txn.kind}/${name}`;
        const before = this.told.get(key);
        const what = `${key}: ${String(before)} -> ${verdict} by ${why}`;
        if (verdict === "durable" && before !== "durable")
          assert.ok(this.world.everDurable(txn, rule), `not on the disks that the level asks for: ${what}`);
        if (before !== undefined && verdict !== before) this.#checkChange(before, verdict, why, what);
        if (verdict !== "pending") this.told.set(key, verdict);
      }
    }
    this.#checkBook();
  }

  /** What is counted as things happen is what counting would find, and nothing is held twice. */
  #checkBook(): void {
    const { entries, backlog, exposed, config } = this.state;
    const bit = this.state.levelBits.get(config.exposureLevel) ?? 0;
    let total = 0;
    for (const { id } of backlog)
      assert.ok(!entries.has(`${id}/${String(backlog.epoch)}`), `${id} is held twice`);
    for (const item of backlog) if (!backlog.hasReached(item, config.exposureLevel)) total++;
    for (const { state: at, announced, kind, reached } of entries.values())
      if (AT_RISK.has(at.kind) && announced && kind === "write" && (reached & bit) === 0) total++;
    assert.equal(exposed.total, total, "the book of what is at risk is wrong");
    const told = exposure(this.state);
    assert.equal(
      total,
      Object.values(told.byOwner).reduce((sum, count) => sum + count, 0),
    );
    assert.equal(told.oldestMs === null, total === 0);
  }

  #checkChange(before: Verdict, verdict: Verdict, why: string, what: string): void {
    if (verdict === "broken") return;
    if (verdict === "pending") {
      assert.ok(this.amnesia || this.hushed || why.startsWith("R5"), `taken back: ${what}`);
      return;
    }
    if (this.amnesia && before === "durable") return;
    assert.fail(`a verdict changed: ${what}`);
  }

  checkEnd(): void {
    const { world, state, config } = this;
    const { ruler } = world;
    const reachable = new Set(reachableLevels(state));
    for (const { what, sound } of this.published) assert.equal(sound, null, `published ${describe(what)}`);
    for (const entry of state.entries.values())
      assert.ok(
        !["intent", "unproven", "asked", "absent"].includes(entry.state.kind) ||
          !state.epochs.has(entry.attempt),
        `${entry.key} is still ${entry.state.kind}`,
      );
    this.#checkLedger();
    const lost = new Set(this.published.map(({ what }) => `${what.id}/${what.attempt}`));
    for (const txn of world.txns) {
      if (txn.offset === null || !state.epochs.has(txn.attempt)) continue;
      const present = world.contains(ruler, txn);
      for (const { name, rule } of config.levels) {
        const { verdict, rule: why } = this.verdict(txn, name);
        const what = `${txn.kind} ${txn.id} of ${txn.attempt} at ${name} is ${verdict} by ${why}`;
        if (reachable.has(name)) assert.notEqual(verdict, "pending", what);
        if (txn.kind === "read") continue;
        if (lost.has(`${txn.id}/${txn.attempt}`) && present) assert.equal(verdict, "broken", what);
        if (present) {
          assert.notEqual(verdict, "lost", `${what}, and in the history`);
          if (verdict === "broken") assert.ok(lost.has(`${txn.id}/${txn.attempt}`), what);
        } else if (verdict === "durable") {
          assert.ok("primary" in rule, `${what}, and not in the history`);
          assert.ok(this.#movedAway(txn), `${what}, and its own node lost it`);
        } else if (verdict === "broken")
          assert.ok(world.everDurable(txn, rule) || lost.has(`${txn.id}/${txn.attempt}`), what);
      }
    }
  }

  /** The ledger has drawn every consequence of the marks, and keeps nothing that waits for nothing. */
  #checkLedger(): void {
    const { state, config } = this;
    for (const { key, state: at, reached } of state.entries.values()) {
      if (at.kind !== "pending" || at.place.epoch !== state.ancestry.at(-1)?.id) continue;
      for (const [index, { name }] of config.levels.entries()) {
        const mark = markIn(state, at.place.epoch, name);
        if (mark !== null && mark >= at.place.offset)
          assert.ok((reached & (1 << index)) !== 0, `${key} has reached ${name}, and nobody noticed`);
      }
      if (reached === (1 << config.levels.length) - 1)
        assert.ok(state.finished.has(key), `${key} is done, and stays for ever`);
    }
  }

  #movedAway(txn: Txn): boolean {
    const born = this.world.epochs.get(txn.attempt)?.record.node;
    return [...this.world.epochs.values()].some(({ record }) => record.node !== born);
  }

  /** Peace: everything is delivered, every node follows the ruler, every question is answered. */
  settleDown(): void {
    const { world } = this;
    this.#peace = true;
    if (world.ruler.epoch === null) this.mint(500, false);
    for (const event of this.held.splice(0)) this.send({ ...event, nowMs: ++this.nowMs });
    world.reap();
    for (const node of world.nodes) {
      if (node === world.ruler) continue;
      if (node.role === "primary" || !world.follows(node, world.ruler)) world.clone(node, 1_000, false);
      world.connect(node, world.ruler);
    }
    for (let round = 0; round < 12; round++) {
      for (const node of world.nodes) this.probe(node, false);
      if (round < 2) this.reigns();
      while (this.announcements.length > 0) {
        const item = this.announcements.pop();
        if (item !== undefined) this.send({ kind: "announced", nowMs: ++this.nowMs, items: [item] });
      }
      for (const txn of world.txns) this.present(txn);
      for (let open = 50; open > 0 && this.reads.length > 0; open--) this.answer(false);
      world.flush(world.ruler, 1_000);
      for (const node of world.nodes) world.stream(node, 1_000);
      world.witness();
      this.nowMs += round === 5 ? this.config.intentPatienceMs : 10;
      this.positions(false);
      this.send({ kind: "ticked", nowMs: ++this.nowMs });
      this.hushed &&= round < 6;
      this.check();
    }
  }
}

const AT_RISK = new Set(["pending", "unproven", "asked", "absent"]);

const describe = (what: Published): string => JSON.stringify({ ...what, owner: what.owner.toString() });
