// One run of the simulation: a world, its gateways and its trackers, and everything that lies between them. Each operation has
// a seed of its own, so that taking one out of a script changes nothing of the others.
import { setImmediate as turn } from "node:timers/promises";
import { type Authority, type NodeReport } from "@highwater/authority";
import { type EpochId, type EpochRecord, ownedName } from "@highwater/protocol";
import { type CoreConfig, marksText, type Published, type TrackerEvent } from "../src/core/index.ts";
import { type Config } from "@highwater/txn-gateway/embedded";
import { peerVerdictOf } from "../src/events/new-events.ts";
import { marksToShare } from "../src/shell/shared-marks.ts";
import { Checker } from "./checker.ts";
import {
  ASKED_AGAIN_MS,
  gatewayConfig,
  type SimGatewayContext,
  type Request,
  short,
  SimGateway,
} from "./gateway.ts";
import { type SimNode } from "./node.ts";
import { Random } from "./random.ts";
import {
  type Announcements,
  type Message,
  type Minting,
  SimTracker,
  type SimTrackerContext,
} from "./tracker.ts";
import { type Habits, World } from "./world.ts";

/** What can happen to a message on its way, in percent. */
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
  /** Positions have 29 digits, as the timestamps of a hybrid logical clock; otherwise at most 4. */
  readonly hasLongPositions?: true;
}

type Mint = Extract<Authority, { kind: "mint" }>;

/** Nanoseconds since 1970, and ten digits of a counter. */
export const LONG_POSITION = 17_958_852_000_000_000_000_000_000_000n;
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
  /** What was found wrong while the product ran. */
  #fault: Error | null = null;
  /** The story so far, if anybody wants to read it. */
  readonly lines: string[] | null;

  constructor(config: CoreConfig, setting: Setting, habits: Habits, isLogged = false) {
    this.lines = isLogged ? [] : null;
    this.config = config;
    this.setting = setting;
    this.weather = setting.weather;
    this.world = new World(config.nodes, {
      unfit: setting.unfit,
      origin: setting.hasLongPositions === true ? LONG_POSITION : 0n,
      habits,
    });
    this.checker = new Checker(this.world, config, this.requests);
    this.trackers = Array.from(
      { length: setting.trackers },
      (_, n) => new SimTracker(n, config, this.#trackerParts(n)),
    );
    const parts: SimGatewayContext = {
      world: this.world,
      requests: this.requests,
      witness: this.checker,
      config: configFor(config, setting.trackers),
      nowMs: () => this.timeMs,
      trackers: () => this.trackers,
      transmit: (tracker, message) => {
        try {
          this.transmit(tracker, message);
        } catch (cause) {
          this.#blame(cause);
        }
      },
      reach: (process, node) => this.reach(process, node),
      rest: () => this.rest(),
      say: (what) => {
        this.say(what);
      },
      onEpoch: (by, record) => {
        this.meet("epoch begun by a gateway");
        this.#noteEpoch(by, record);
      },
      onFault: (cause) => {
        this.#blame(cause);
      },
    };
    this.gateways = Array.from({ length: setting.gateways }, (_, n) => new SimGateway(n, parts));
  }

  #blame(cause: unknown): void {
    this.#fault ??= cause instanceof Error ? cause : new Error(String(cause));
  }

  #trackerParts(n: number): SimTrackerContext {
    return {
      witness: this.checker,
      nowMs: () => this.timeMs,
      onFault: (cause) => {
        this.#blame(cause);
      },
      witnessOf: (id, epoch) => {
        const node = this.reach(`t${String(n)}`, id);
        if (node === null) return Promise.reject(new Error(`${id} cannot be reached`));
        const witness = node.witnessOf(epoch);
        if (witness !== null) this.meet("survivor asked");
        this.world.truth.survivor(epoch, node);
        return Promise.resolve(witness);
      },
    };
  }

  /** Lets everything run that waits for nothing but its turn, and for the clocks of the gateways. */
  async rest(): Promise<void> {
    for (let isQuiet = false; !isQuiet;) {
      for (const { streams } of this.trackers)
        for (const stream of streams)
          if (!stream.isEmpty && !this.random.chance(this.weather.late)) stream.arrive();
      await turn();
      isQuiet = true;
      for (const { clock } of this.gateways) if (clock.fire()) isQuiet = false;
    }
    if (this.#fault !== null) throw this.#fault;
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

  /** Delivers a message now, later, twice or never. */
  transmit(tracker: SimTracker, message: Message): void {
    const { late, lost, twice } = this.weather;
    const roll = this.random.below(100);
    if (roll < lost) {
      this.meet("report lost");
      this.#fail(tracker, message);
    } else if (roll < lost + late) {
      this.meet("report late");
      tracker.inbox.push(message);
    } else {
      if (roll < lost + late + twice) {
        this.meet("report repeated");
        tracker.inbox.push(message);
      }
      this.deliver(tracker, message);
    }
  }

  /** The client that asked gives up in the end. */
  #fail(tracker: SimTracker, message: Message): void {
    if (message.kind === "announcements") message.answer(false);
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
      case "announcements":
        this.#takeAnnouncements(tracker, message, nowMs);
    }
  }

  #takeAnnouncements(tracker: SimTracker, message: Announcements, nowMs: number): void {
    const { gateway, items, parents, answer } = message;
    const { truth } = this.world;
    tracker.unwritten.push({
      ...message,
      answer: (isWritten) => {
        for (const item of isWritten ? items : []) truth.observe(tracker.n, item);
        answer(isWritten);
      },
    });
    const from = { gateway: `gateway-${String(gateway + 1)}`, region: gateway === 0 ? "east" : "west" };
    tracker.send({ kind: "announced", nowMs, from, items, parents });
    // Mostly the disk is fast.
    if (this.random.chance(80)) tracker.flush(false);
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
      if (node !== null) {
        const report = world.report(node);
        const newest = report.epochs.at(-1);
        // What it has on disk of that epoch counts, also when a newer one has begun elsewhere.
        if (newest !== undefined) world.truth.survivor(newest.id as EpochId, node);
        this.transmit(tracker, { kind: "report", report, askedAt });
      } else {
        tracker.watcher.missed(question.node, askedAt);
        tracker.send({ kind: "node_unreachable", nowMs, node: question.node });
        this.decide(tracker);
      }
      return;
    }
    const { standing } = tracker.state.topology;
    if (standing.kind !== "following" || node === null || node.epoch !== standing.epoch) return;
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
    const isNews = tracker.watcher.observe(report, askedAt);
    tracker.send({
      kind: "node_reported",
      nowMs: this.clock(tracker),
      askedAtMs: askedAt,
      node,
      role,
      incarnation,
      epochs,
      unfit: unfit !== null,
      upstream,
      isFed,
    });
    if (isNews) this.decide(tracker);
    const { standing } = tracker.state.topology;
    if (standing.kind === "following" && standing.node === node && standing.epoch === report.current)
      this.#shareMarks(tracker, report);
    tracker.survivors.look(report, tracker.state);
  }

  // ---- what trackers share through the store

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

  /** The tracker's reports are recorded on the current primary, and what others have recorded as broken there is read. */
  exchangeVerdicts(tracker: SimTracker): void {
    const { standing } = tracker.state.topology;
    if (standing.kind !== "following") return;
    const node = this.reach(`t${String(tracker.n)}`, standing.node);
    if (node?.epoch !== standing.epoch) return;
    for (const event of tracker.lossEvents) this.world.recordVerdict(node, standing.epoch, event);
    const peerVerdicts: Published[] = [];
    for (const rec of node.log) {
      if (rec.kind !== "peer_verdict" || tracker.peerVerdicts.has(rec)) continue;
      tracker.peerVerdicts.add(rec);
      if (rec.event.type === "transaction.broken") peerVerdicts.push(peerVerdictOf(rec.event));
    }
    if (peerVerdicts.length === 0) return;
    this.say(() => `${tracker.name} hears ${peerVerdicts.map(sendVerdict).join(", ")}`);
    this.meet("peer verdict received");
    tracker.send({ kind: "peer_verdicts_received", nowMs: this.clock(tracker), peerVerdicts });
  }

  // ---- authority

  decide(tracker: SimTracker): void {
    const authority = tracker.watcher.decide();
    if (authority === null) return;
    const nowMs = this.clock(tracker);
    this.say(() => `${tracker.name} takes for authority: ${sendAuthority(authority)}`);
    if (authority.kind === "primary") {
      tracker.saveEpochMarks();
      const { epoch, node } = authority;
      tracker.send({ kind: "epoch_followed", nowMs, epoch, node });
      this.meet("epoch followed");
      return;
    }
    if (authority.kind === "split") this.meet("split brain");
    const split = authority.kind === "split";
    tracker.send({ kind: "authority_unsettled", nowMs, reason: authority.kind, split });
    if (authority.kind === "mint" && this.random.chance(70)) this.act(tracker);
  }

  /** Goes on with the epoch that the tracker has begun, or begins the one that it has found missing. */
  act(tracker: SimTracker): void {
    const { minting } = tracker;
    tracker.minting = null;
    if (minting !== null) this.#openEpoch(tracker, minting);
    else if (tracker.watcher.authority.kind === "mint") this.#beginEpoch(tracker, tracker.watcher.authority);
  }

  #beginEpoch(tracker: SimTracker, { node: id, command, supersedes }: Mint): void {
    const node = this.reach(`t${String(tracker.n)}`, id);
    if (node === null || !node.isPrimary) return;
    const epoch = (tracker.state.topology.ancestry.at(-1)?.id ?? null) as EpochId | null;
    const known = tracker.state.topology.nodes.get(node.id);
    const streamed =
      epoch === null || known?.streamed == null || known.incarnation === null
        ? null
        : { epoch, offset: known.streamed, incarnation: known.incarnation };
    const finalMarks = Object.fromEntries(
      [...tracker.state.topology.marks].map(([of, marks]) => [
        of,
        Object.fromEntries([...marks].map(([level, offset]) => [level, offset.toString()])),
      ]),
    );
    const minSeq = tracker.watcher.graph.maxSeq + 1;
    const request = { minSeq, supersedes, command, streamed, finalMarks };
    const draft = node.draft?.record.id;
    const begun = this.world.epochs.begin(node, request);
    if (typeof begun !== "string") return;
    if (begun === draft) this.meet("epoch completed by another");
    this.say(() => `${tracker.name} writes ${short(begun)} on ${node.id}`);
    tracker.minting = { node: node.id, sessions: node.sessions, epoch: begun, request };
    if (this.random.chance(80)) this.act(tracker);
    else this.meet("minting interrupted");
  }

  /** In the session in which its record was written. */
  #openEpoch(tracker: SimTracker, { node: id, sessions, epoch, request }: Minting): void {
    const node = this.reach(`t${String(tracker.n)}`, id);
    if (node?.sessions !== sessions) return;
    const record = this.world.epochs.open(node, epoch, request);
    if (record !== null) this.#noteEpoch(tracker.name, record);
  }

  #noteEpoch(by: string, record: EpochRecord): void {
    this.meet(`epoch: ${record.cause}`);
    this.say(
      () =>
        `${by} begins ${short(record.id)} on ${record.node} after ${short(record.previous ?? "-0")}: ${record.cause}, fork ${record.forkOffset}, start ${record.startOffset}, limit ${record.forkLimit ?? "none"}`,
    );
  }

  /** The nodes answer the gateways' watchers. */
  async gatewaysLook(gateways: readonly SimGateway[], nodes: readonly SimNode[]): Promise<void> {
    for (const { clock } of gateways) clock.skip(ASKED_AGAIN_MS);
    await this.rest();
    for (const gateway of gateways) gateway.observe(nodes);
    await this.rest();
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
    if (node !== null) this.world.helpFlush(node, help.epoch, marksText(tracker.state, help.epoch));
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

/** Made once for all runs. */
const configs = new Map<number, Config>();

function configFor({ nodes, levels, exposureLevel }: CoreConfig, trackers: number): Config {
  let config = configs.get(trackers);
  if (config === undefined) {
    const rules = Object.fromEntries(levels.map(({ name, rule }) => [name, rule]));
    const sites = nodes.map((site) => ({ ...site, url: `postgres://${site.id}` }));
    config = gatewayConfig({ nodes: sites, levels: rules }, trackers, exposureLevel);
    configs.set(trackers, config);
  }
  return config;
}

function sendVerdict({ id, attempt, verdicts, rule }: Published): string {
  return `${short(id)} of ${short(attempt)}: ${JSON.stringify(verdicts)} by ${rule}`;
}

function sendAuthority(authority: Authority): string {
  if (authority.kind === "primary") return `${short(authority.epoch)} on ${authority.node}`;
  if (authority.kind === "mint") return `${authority.node}, whose epoch has yet to begin`;
  return authority.kind;
}
