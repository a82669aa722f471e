// One run of the simulation: a world, its gateways and its trackers, and everything that lies between them. Each operation has
// a seed of its own, so that taking one out of a script changes nothing of the others.
import { type EpochId, type TxnId, ownedName } from "@highwater/protocol";
import { type Authority, type NodeReport } from "@highwater/store/rules";
import {
  type AnnouncedItem,
  type CoreConfig,
  markIn,
  type Published,
  type TrackerEvent,
} from "../src/core/index.ts";
import { brokenWord } from "../src/events/new-events.ts";
import { marksToShare } from "../src/shell/shared-marks.ts";
import { Checker } from "./checker.ts";
import { type Request, short, SimGateway } from "./gateway.ts";
import { type SimNode } from "./node.ts";
import { Random } from "./random.ts";
import { type Message, SimTracker } from "./tracker.ts";
import { type Token } from "./truth.ts";
import { type Habits, World } from "./world.ts";

/** What can happen to a word on its way, in percent. */
export interface Weather {
  readonly late: number;
  readonly lost: number;
  readonly twice: number;
}

export interface Setting {
  readonly gateways: number;
  readonly trackers: number;
  /** A node whose disk cannot be trusted. */
  readonly unfit: string | null;
  readonly weather: Weather;
  /** A tracker's disk may lose what was written. */
  readonly tears: boolean;
}

const CALM: Weather = { late: 0, lost: 0, twice: 0 };

export class Play {
  readonly world: World;
  readonly config: CoreConfig;
  readonly setting: Setting;
  readonly gateways: SimGateway[];
  readonly trackers: SimTracker[];
  readonly checker: Checker;
  readonly requests: Request[] = [];
  /** `process-node` pairs that cannot talk. */
  readonly cuts = new Set<string>();
  /** Kinds of faults that have really happened, with their number. */
  readonly met = new Map<string, number>();
  random = new Random(0);
  timeMs = 1_000;
  weather: Weather;
  /** The story so far, if anybody wants to read it. */
  readonly lines: string[] | null;

  constructor(config: CoreConfig, setting: Setting, habits: Habits, isTold = false) {
    this.lines = isTold ? [] : null;
    this.config = config;
    this.setting = setting;
    this.weather = setting.weather;
    this.world = new World(config.nodes, setting.unfit, habits);
    this.checker = new Checker(this.world, config, this.requests);
    const parts = {
      world: this.world,
      announce: (gateway: number, item: AnnouncedItem) => {
        this.announce(gateway, item);
      },
      reach: (process: string, node: string) => this.reach(process, node),
      say: (what: () => string) => {
        this.say(what);
      },
      isMarked: ({ epoch, offset }: Token["place"]) =>
        this.trackers.some(({ state }) => (markIn(state, epoch, config.exposureLevel) ?? -1n) >= offset),
      onRefused: (id: TxnId, epoch: EpochId) => {
        this.checker.onRefused(id, epoch);
      },
    };
    this.gateways = Array.from({ length: setting.gateways }, (_, n) => new SimGateway(n, parts));
    this.trackers = Array.from(
      { length: setting.trackers },
      (_, n) => new SimTracker(n, config, this.timeMs, this.checker),
    );
  }

  say(what: () => string): void {
    this.lines?.push(what());
  }

  meet(fault: string): void {
    this.met.set(fault, (this.met.get(fault) ?? 0) + 1);
  }

  clock(tracker: SimTracker): number {
    return this.timeMs + tracker.skewMs;
  }

  reach(process: string, id: string): SimNode | null {
    const node = this.world.named(id);
    return node === undefined || !node.isUp || this.cuts.has(`${process}-${id}`) ? null : node;
  }

  // ---- words on their way

  announce(gateway: number, item: AnnouncedItem): void {
    for (const tracker of this.trackers) this.transmit(tracker, { kind: "announcement", item, gateway });
  }

  /** Delivers a message now, later, twice or never. */
  transmit(tracker: SimTracker, message: Message): void {
    const { late, lost, twice } = this.weather;
    const roll = this.random.below(100);
    // A gateway sends an announcement again until it is acknowledged.
    const isKept = message.kind === "announcement";
    if (roll < lost && !isKept) {
      this.meet("word lost");
      this.#fail(tracker, message);
    } else if (roll < lost + late) {
      this.meet("word late");
      tracker.inbox.push(message);
    } else {
      if (roll < lost + late + twice) {
        this.meet("word repeated");
        tracker.inbox.push(message);
      }
      this.deliver(tracker, message);
    }
  }

  /** Whoever asked gives up in the end. */
  #fail(tracker: SimTracker, message: Message): void {
    if (message.kind === "event" && message.event.kind === "receipts_read")
      tracker.send({
        kind: "receipts_unread",
        nowMs: this.clock(tracker),
        request: message.event.request,
      });
  }

  deliver(tracker: SimTracker, message: Message): void {
    this.timeMs++;
    const nowMs = this.clock(tracker);
    switch (message.kind) {
      case "question":
        this.#answerQuestion(tracker, message);
        return;
      case "report":
        this.#takeReport(tracker, message);
        return;
      case "event":
        tracker.send({ ...message.event, nowMs });
        return;
      case "announcement": {
        const { item, gateway } = message;
        tracker.unwritten.push(message);
        const key = `${String(tracker.n)}/${item.id}/${item.epoch}`;
        const { heard } = this.world.truth;
        if (item.kind === "position" || (item.kind === "intent" && !heard.has(key)))
          heard.set(key, item.kind);
        const from = { gateway: `g${String(gateway)}`, region: gateway === 0 ? "east" : "west" };
        const parent = this.world.truth.parentOf(item.epoch);
        const parents = parent === null ? {} : { [item.epoch]: parent };
        tracker.send({ kind: "announced", nowMs, from, items: [item], parents });
      }
    }
  }

  ask(tracker: SimTracker, about: "node" | "positions", node: string): void {
    this.transmit(tracker, { kind: "question", about, node, askedAt: this.clock(tracker) });
  }

  #answerQuestion(tracker: SimTracker, question: Extract<Message, { kind: "question" }>): void {
    const { world } = this;
    const { askedAt } = question;
    const node = this.reach(`t${String(tracker.n)}`, question.node);
    const nowMs = this.clock(tracker);
    if (question.about === "node") {
      if (node !== null) this.transmit(tracker, { kind: "report", report: world.report(node), askedAt });
      else {
        tracker.watcher.missed(question.node, askedAt);
        tracker.send({ kind: "node_unreachable", nowMs, node: question.node });
        this.decide(tracker);
      }
      return;
    }
    const { standing } = tracker.state;
    if (standing.kind !== "reigning" || node === null || node.epoch !== standing.epoch) return;
    this.transmit(tracker, {
      kind: "event",
      event: {
        kind: "positions_reported",
        nowMs,
        askedAtMs: askedAt,
        node: node.id,
        epoch: node.epoch,
        flushed: node.flushedEnd,
        replicas: world.positionsOf(node),
      },
    });
  }

  #takeReport(tracker: SimTracker, { report, askedAt }: { report: NodeReport; askedAt: number }): void {
    const { node, role, incarnation, epochs, unfit, upstream, isFed } = report;
    const isNews = tracker.watcher.heard(report, askedAt);
    tracker.send({
      ...{ kind: "node_reported", nowMs: this.clock(tracker), askedAtMs: askedAt },
      ...{ node, role, incarnation, epochs, unfit: unfit !== null, upstream, isFed },
    });
    if (isNews) this.decide(tracker);
    const { standing } = tracker.state;
    if (standing.kind === "reigning" && standing.node === node && standing.epoch === report.current)
      this.#shareMarks(tracker, report);
  }

  // ---- what trackers tell each other through the store

  #shareMarks(tracker: SimTracker, report: NodeReport): void {
    const node = this.reach(`t${String(tracker.n)}`, report.node);
    // A write that fails is made again with a later report.
    if (node === null || this.random.below(100) < this.weather.lost) return;
    for (const [epoch, marks] of marksToShare(report.epochs, tracker.state)) {
      this.meet("final marks raised");
      this.say(() => `${tracker.name} raises the marks in ${short(epoch)}: ${JSON.stringify(marks)}`);
      this.world.raiseFinalMarks(node, epoch, marks);
    }
  }

  /** What the tracker has told is recorded where it reigns, and what others have recorded as broken there is heard. */
  exchangeWords(tracker: SimTracker): void {
    const { standing } = tracker.state;
    if (standing.kind !== "reigning") return;
    const node = this.reach(`t${String(tracker.n)}`, standing.node);
    if (node?.epoch !== standing.epoch) return;
    for (const event of tracker.words) this.world.recordWord(node, standing.epoch, event);
    const words: Published[] = [];
    for (const rec of node.log) {
      if (rec.kind !== "word" || tracker.heardWords.has(rec)) continue;
      tracker.heardWords.add(rec);
      if (rec.event.type === "transaction.broken") words.push(brokenWord(rec.event));
    }
    if (words.length === 0) return;
    this.say(() => `${tracker.name} hears ${words.map(tellWord).join(", ")}`);
    this.meet("word of another heard");
    tracker.send({ kind: "told_elsewhere", nowMs: this.clock(tracker), words });
  }

  // ---- authority

  decide(tracker: SimTracker): void {
    const authority = tracker.watcher.decide();
    if (authority === null) return;
    const nowMs = this.clock(tracker);
    this.say(() => `${tracker.name} takes for authority: ${tellAuthority(authority)}`);
    if (authority.kind === "primary") {
      tracker.saveReignsMarks();
      const { epoch, node } = authority;
      tracker.send({ kind: "epoch_reigns", nowMs, epoch, node });
      this.meet("reign begun");
      return;
    }
    if (authority.kind === "split") this.meet("split brain");
    const split = authority.kind === "split";
    tracker.send({ kind: "authority_unsettled", nowMs, reason: authority.kind, split });
    if (authority.kind === "mint" && this.random.chance(70)) this.act(tracker);
  }

  /** Begins the epoch that the tracker has found missing. */
  act(tracker: SimTracker): void {
    const { authority, graph } = tracker.watcher;
    if (authority.kind !== "mint") return;
    const node = this.reach(`t${String(tracker.n)}`, authority.node);
    if (node === null) return;
    const { command, supersedes } = authority;
    const epoch = (tracker.state.ancestry.at(-1)?.id ?? null) as EpochId | null;
    const known = tracker.state.nodes.get(node.id);
    const streamed =
      epoch === null || known?.streamed == null || known.incarnation === null
        ? null
        : { epoch, offset: known.streamed, incarnation: known.incarnation };
    const finalMarks = Object.fromEntries(
      [...tracker.state.marks].map(([of, marks]) => [
        of,
        Object.fromEntries([...marks].map(([level, offset]) => [level, offset.toString()])),
      ]),
    );
    const minSeq = graph.maxSeq + 1;
    const record = this.world.mint(node, { minSeq, supersedes, command, streamed, finalMarks });
    if (record === null) return;
    this.meet(`epoch: ${record.cause}`);
    this.say(
      () =>
        `${tracker.name} begins ${short(record.id)} on ${node.id} after ${short(record.previous ?? "-0")}: ${record.cause}, fork ${record.forkOffset}, start ${record.startOffset}, limit ${record.forkLimit ?? "none"}`,
    );
  }

  gatewayLooks(gateway: SimGateway, nodes: readonly SimNode[]): void {
    for (const { id } of nodes) {
      const node = this.reach(gateway.process, id);
      if (node === null) gateway.watcher.missed(id, this.timeMs);
      else gateway.watcher.heard(this.world.report(node), this.timeMs);
    }
    gateway.watcher.decide();
  }

  // ---- questions of the trackers to the store

  answerRead(tracker: SimTracker): void {
    const read = tracker.reads.shift();
    if (read === undefined) return;
    const { request, epoch, of, tombstone } = read;
    const ids = of.map(({ id }) => id);
    const node = this.reach(`t${String(tracker.n)}`, read.node);
    const receipts = node === null ? null : this.world.settle(node, { epoch, ids, tombstone });
    if (node === null || receipts === null) {
      tracker.send({ kind: "receipts_unread", nowMs: this.clock(tracker), request });
      return;
    }
    this.say(
      () =>
        `${tracker.name} reads on ${node.id}: ${[...receipts].map(([id, { kind, epoch: of }]) => `${short(id)} ${kind} of ${short(of)}`).join(", ")}`,
    );
    const found = new Map(
      of.flatMap((owned) => {
        const receipt = receipts.get(owned.id);
        return receipt === undefined ? [] : [[ownedName(owned), receipt] as const];
      }),
    );
    const event: TrackerEvent = {
      kind: "receipts_read",
      nowMs: 0,
      request,
      epoch,
      asOf: node.end,
      receipts: found,
    };
    this.transmit(tracker, { kind: "event", event });
  }

  help(tracker: SimTracker): void {
    const help = tracker.helps.shift();
    if (help === undefined) return;
    const node = this.reach(`t${String(tracker.n)}`, help.node);
    if (node !== null) this.world.helpFlush(node, help.epoch);
    tracker.send({ kind: "flush_helped", nowMs: this.clock(tracker), epoch: help.epoch });
  }

  // ---- after every operation

  check(): void {
    this.world.truth.witness(this.world.nodes);
    for (const tracker of this.trackers) if (tracker.isDirty) this.checker.checkTracker(tracker);
  }

  /** From now on every word arrives, at once. */
  calm(): void {
    this.weather = CALM;
    this.cuts.clear();
  }
}

function tellWord({ id, attempt, verdicts, rule }: Published): string {
  return `${short(id)} of ${short(attempt)}: ${JSON.stringify(verdicts)} by ${rule}`;
}

function tellAuthority(authority: Authority): string {
  if (authority.kind === "primary") return `${short(authority.epoch)} on ${authority.node}`;
  if (authority.kind === "mint") return `${authority.node}, whose epoch has yet to begin`;
  return authority.kind;
}
