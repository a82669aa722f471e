// The small operations that scripts are made of, and how often each is drawn: what clients, servers, the network, gateways and
// trackers do. Whole scenes are in scenes.ts.
import { type EpochId } from "@highwater/protocol";
import { judge } from "../src/core/index.ts";
import { type Request, short, type SimGateway } from "./gateway.ts";
import { type SimNode } from "./node.ts";
import { type Play } from "./play.ts";
import { type Run } from "./store.ts";
import { type SimTracker } from "./tracker.ts";
import { ownerOf, type Token } from "./truth.ts";

export type Act = (play: Play) => void | Promise<void>;

const MAX_COPIES = 3;
/** A gateway begins an epoch itself when the trackers have not begun it for so long. */
const OVERDUE_MS = 4_000;

const node = (play: Play): SimNode => play.random.pick(play.world.nodes) as SimNode;
const tracker = (play: Play): SimTracker => play.random.pick(play.trackers) as SimTracker;
const gateway = (play: Play): SimGateway => play.random.pick(play.gateways) as SimGateway;

/** Mostly one that can be written to. */
export function primary(play: Play): SimNode {
  const writable = play.world.nodes.filter(({ isPrimary }) => isPrimary);
  return play.random.pick(writable) ?? node(play);
}

function replica(play: Play): SimNode | undefined {
  return play.random.pick(play.world.nodes.filter(({ role, isUp }) => role === "replica" && isUp));
}

function newRequest(play: Play): Request {
  const request: Request = {
    n: play.requests.length + 1,
    ids: [],
    refused: new Map(),
    isFree: false,
    attempts: 0,
  };
  play.requests.push(request);
  return request;
}

export function size(play: Play): number {
  return 1 + play.random.below(40);
}

function begin(
  play: Play,
  at = gateway(play),
  request = newRequest(play),
  id = play.world.newId(),
): Promise<Run | null> {
  const isSafe = play.random.chance(20);
  const level = play.random.pick(play.config.levels)?.name ?? "";
  return at.begin(request, id, { ack: isSafe ? "durable" : "commit", level });
}

/** COMMIT. `isAnswered`: whether the gateway gets the answer. */
async function commit(play: Play, at: SimGateway, run: Run, isAnswered: boolean): Promise<void> {
  const { id, epoch } = run.spec;
  const outcome = at.store.commit(run, size(play), isAnswered);
  if (!isAnswered) play.meet("reply lost");
  if (!isAnswered || outcome === "unreachable") play.meet("unknown outcome");
  play.say(() =>
    typeof outcome === "string"
      ? `${run.node} does not run ${short(id)} in ${short(epoch)}: ${outcome}`
      : `${short(id)} commits on ${run.node} in ${short(epoch)}, up to ${String(outcome.rec.end)}`,
  );
  const request = play.requests[run.request - 1];
  if (!isAnswered && play.world.habits.retriesUnsettled && request !== undefined)
    await begin(play, at, request);
}

/** All at once, as it mostly is. */
async function runThrough(play: Play, at: SimGateway, run: Run | null, odds: number): Promise<void> {
  if (run?.phase !== "sent") return;
  await commit(play, at, run, play.random.chance(odds));
  if (play.random.chance(50)) play.world.noise(primary(play), size(play));
  if (play.random.chance(70)) acknowledge(at, run);
}

function acknowledge(at: SimGateway, run: Run | undefined): void {
  if (run?.phase === "committed") at.store.sendPosition(run);
}

async function run(play: Play): Promise<void> {
  const at = gateway(play);
  await runThrough(play, at, await begin(play, at), 100);
}

async function execute(play: Play, isAnswered: boolean): Promise<void> {
  const at = gateway(play);
  const run = play.random.pick(at.store.open("sent"));
  if (run === undefined) return;
  if (isAnswered || play.random.chance(60)) {
    await commit(play, at, run, isAnswered);
    return;
  }
  play.meet("request lost");
  at.store.cutOff(run);
}

/** A statement fails, and the database undoes the transaction. */
function undo(play: Play): void {
  const at = gateway(play);
  const run = play.random.pick(at.store.open("sent"));
  if (run === undefined) return;
  play.meet("statement failed");
  at.store.fail(run, "serialization_failure");
}

/** A question of a gateway gets to the store. */
function answerStore(play: Play, at = gateway(play)): void {
  const question = play.random.pick(at.store.questions);
  if (question === undefined) return;
  const isReturned = play.random.chance(90);
  play.say(() => `${at.name} ${question.what} on ${question.node}${isReturned ? "" : ", and does not hear"}`);
  at.store.answer(question, isReturned);
}

/** No tracker has begun the epoch for so long that the gateway begins it itself. */
async function beginOverdue(play: Play, at: SimGateway, nodes: readonly SimNode[]): Promise<void> {
  at.clock.skip(OVERDUE_MS);
  await play.gatewaysLook([at], nodes);
  // Its two steps, if nothing comes in between.
  for (let step = 0; step < 2 && play.random.chance(80); step++) {
    answerStore(play, at);
    await play.rest();
  }
}

/** A client that has lost its answer asks again under the same id, of whatever gateway. */
async function again(play: Play): Promise<void> {
  const request = play.random.pick(play.requests);
  const id = request?.ids.at(-1);
  if (request === undefined || id === undefined || request.isFree) return;
  const at = gateway(play);
  const run = await begin(play, at, request, id);
  if (run === null) return;
  play.meet("same id again");
  await runThrough(play, at, run, 80);
}

/** A client that knows of the loss runs it again under a new id. */
async function anew(play: Play): Promise<void> {
  const request = play.random.pick(play.requests.filter(({ isFree }) => isFree));
  if (request === undefined) return;
  const at = gateway(play);
  const run = await begin(play, at, request);
  if (run === null) return;
  play.meet("new id after a loss");
  await runThrough(play, at, run, 100);
}

/** A client of the PostgreSQL wire, safe and without a receipt. */
function commitOnWire(play: Play): void {
  const at = gateway(play);
  if (at.sessions.length === 0 || play.random.chance(30)) at.connect();
  const session = play.random.pick(at.sessions);
  if (session === undefined) return;
  const level = play.random.pick(play.config.levels)?.name ?? "";
  const isAnswered = play.random.chance(90);
  const isCommit = play.random.chance(70);
  const isEarly = isCommit && play.random.chance(40);
  const held = at.commitOnWire(session, { size: size(play), level, isAnswered, isCommit, isEarly });
  play.meet(held === null ? "session of the wire ended" : "commit on the wire");
}

function read(play: Play): void {
  const at = gateway(play);
  const { primaryEpoch } = at;
  const from = primaryEpoch === null ? null : play.reach(at.process, primaryEpoch.node);
  if (primaryEpoch === null || from === null || from.epoch !== primaryEpoch.epoch || play.world.isFull)
    return;
  const txn = play.world.read(from, from.log.length, primaryEpoch.epoch);
  if (txn === null) return;
  play.world.truth.token(txn, { epoch: primaryEpoch.epoch, offset: from.end });
  play.say(
    () => `${short(txn.id)} reads on ${from.id} up to ${String(from.end)} in ${short(primaryEpoch.epoch)}`,
  );
}

/** A replica near the reader answers with what it has replayed of the newest epoch that it has. */
function readNear(play: Play): void {
  const from = replica(play);
  const newest = from?.epochRecs.at(-1);
  if (from === undefined || newest === undefined || play.world.isFull) return;
  // Between a promotion and the next epoch's record no one knows which history it belongs to.
  if (newest.timeline !== from.timeline) return;
  const epoch = newest.record;
  if (from.replayedEnd < BigInt(epoch.startOffset)) return;
  const txn = play.world.read(from, from.replayed, epoch.id as EpochId);
  if (txn === null) return;
  play.world.truth.token(txn, { epoch: epoch.id as EpochId, offset: from.replayedEnd });
  play.say(
    () =>
      `${short(txn.id)} reads on replica ${from.id} up to ${String(from.replayedEnd)} in ${short(epoch.id)}`,
  );
}

/** Somebody asks a tracker about a token. */
export function present(play: Play, at: SimTracker, { txn, position }: Token): void {
  const { id, attempt, kind } = txn;
  const level = play.config.levels.at(-1)?.name ?? "";
  const parent = play.world.truth.parentOf(position.epoch);
  const owner = ownerOf(txn.request);
  if (!judge(at.state, { id, owner, attempt, kind, position, parent }, level).needsProof) return;
  const says = { tokenKind: kind, position, parent, owner };
  at.send({ kind: "token_presented", nowMs: play.clock(at), id, attempt, ...says });
}

function stop(play: Play, of: SimNode | undefined, clean: boolean): void {
  if (of === undefined || !of.isUp) return;
  play.meet(`${of.role} ${clean ? "stopped" : "killed"}`);
  play.say(() => `${of.id} (${of.role}) is ${clean ? "stopped" : "killed"}`);
  play.world.stop(of, clean, play.random.chance(30));
}

function start(play: Play): void {
  const down = play.random.pick(play.world.nodes.filter(({ isUp }) => !isUp));
  if (down === undefined) return;
  play.say(() => `${down.id} starts as ${down.role}`);
  play.world.start(down);
}

export function promote(play: Play, of: SimNode | undefined): void {
  if (of === undefined || of.role !== "replica" || !of.isUp) return;
  const { nodes } = play.world;
  const ahead = nodes.some(
    ({ id, flushed, role }) => role === "replica" && id !== of.id && flushed > of.flushed,
  );
  play.meet(ahead ? "worse replica promoted" : "best replica promoted");
  if (nodes.some(({ isPrimary }) => isPrimary)) play.meet("zombie");
  play.world.promote(of);
  const twin = nodes.some(
    ({ id, timeline, isPrimary }) => isPrimary && id !== of.id && timeline === of.timeline,
  );
  if (twin) play.meet("twins on one timeline");
  play.say(() => `${of.id} is promoted at ${String(of.end)}`);
}

/** An operator names the primary: mostly against everything that there is, sometimes with less in mind. */
export function command(play: Play, of: SimNode, blind: boolean): void {
  if (!of.isPrimary) return;
  const own = new Set(of.epochRecs.map(({ record }) => record.id));
  const others = [...play.world.truth.epochs.keys()].filter((id) => !own.has(id));
  play.meet("operator's command");
  play.say(() => `an operator names ${of.id}${blind ? ", blindly" : ""}`);
  play.world.command(of, blind ? others.slice(0, -1) : others);
}

function restore(play: Play): void {
  const copy = play.random.pick(play.world.copies);
  const of = node(play);
  if (copy === undefined) return;
  play.meet("restored from an older copy");
  play.say(() => `${of.id} is restored from a copy that ends at ${String(copy.log.at(-1)?.end ?? 0n)}`);
  play.world.restore(of, copy);
}

export function clone(play: Play, of: SimNode, source: SimNode, records: number): void {
  if (of === source || !source.isUp) return;
  play.say(() => `${of.id} is cloned from ${source.id}`);
  play.world.clone(of, source, records, play.random.chance(50));
}

export function connect(play: Play, of: SimNode, source: SimNode): void {
  if (of.role !== "replica" || !of.isUp || !source.isPrimary || of === source) return;
  if (!play.world.follows(of, source)) play.meet("replica of another history attached");
  play.say(() => `${of.id} streams from ${source.id}`);
  play.world.connect(of, source);
}

function cutOff(play: Play): void {
  const processes = [
    ...play.trackers.map(({ n }) => `t${String(n)}`),
    ...play.gateways.map((at) => at.process),
  ];
  const process = play.random.pick(processes) ?? "";
  const all = play.random.chance(20);
  play.meet("process cut off from a node");
  for (const { id } of all ? play.world.nodes : [node(play)]) play.cuts.add(`${process}-${id}`);
}

function restartTracker(play: Play, lost: number): void {
  const at = tracker(play);
  play.meet(lost > 0 ? "torn ledger" : "tracker killed");
  play.say(() => `${at.name} is killed and started again${lost > 0 ? " from a torn ledger" : ""}`);
  at.restart(play.clock(at), lost);
}

function deliverLate(play: Play, keep: boolean): void {
  const at = tracker(play);
  const { inbox } = at;
  const index = play.random.below(inbox.length);
  const message = inbox[index];
  if (message === undefined) return;
  if (keep) play.meet("report repeated");
  else inbox.splice(index, 1);
  play.deliver(at, message);
}

/** Weight and action of each operation. The first is what is left of a script that needs nothing. */
export const OPS: Readonly<Record<string, readonly [weight: number, act: Act]>> = {
  rest: [0, () => undefined],
  // Clients and gateways.
  run: [4, run],
  begin: [
    2,
    async (play) => {
      await begin(play);
    },
  ],
  commit: [
    3,
    async (play) => {
      await execute(play, true);
    },
  ],
  replyLost: [
    2,
    async (play) => {
      await execute(play, false);
    },
  ],
  undo: [1, undo],
  acknowledge: [
    3,
    (play) => {
      const at = gateway(play);
      acknowledge(at, play.random.pick(at.store.open("committed")));
    },
  ],
  answerStore: [5, answerStore],
  again: [1, again],
  anew: [2, anew],
  // Not drawn: runs with clients of the wire get it besides.
  wire: [0, commitOnWire],
  read: [2, read],
  readNear: [1, readNear],
  present: [
    2,
    (play) => {
      const token = play.random.pick(play.world.truth.tokens);
      if (token !== undefined) present(play, tracker(play), token);
    },
  ],
  gatewayLooks: [
    3,
    async (play) => {
      const skipped = play.random.chance(30) ? play.random.below(play.world.nodes.length) : -1;
      const nodes = play.world.nodes.filter((_, index) => index !== skipped);
      const at = gateway(play);
      await play.gatewaysLook([at], nodes);
      if (at.authority.kind === "mint" && play.random.chance(50)) await beginOverdue(play, at, nodes);
    },
  ],
  gatewayDies: [
    1,
    (play) => {
      play.meet("gateway killed");
      gateway(play).die();
    },
  ],
  // Servers and streams.
  noise: [
    1,
    (play) => {
      play.world.noise(primary(play), size(play));
    },
  ],
  flush: [
    2,
    (play) => {
      (play.random.chance(30) ? node(play) : primary(play)).flush(1 + play.random.below(6));
    },
  ],
  receive: [
    2,
    (play) => {
      play.world.receive(node(play), 1 + play.random.below(8));
    },
  ],
  replay: [
    1,
    (play) => {
      play.world.replay(node(play), 1 + play.random.below(8));
    },
  ],
  connect: [
    1,
    (play) => {
      connect(play, node(play), primary(play));
    },
  ],
  cut: [
    1,
    (play) => {
      play.meet("stream cut");
      play.world.cut(node(play), play.random.chance(50));
    },
  ],
  reap: [
    1,
    (play) => {
      play.world.reap();
    },
  ],
  killPrimary: [
    1,
    (play) => {
      stop(play, primary(play), false);
    },
  ],
  killReplica: [
    1,
    (play) => {
      stop(play, replica(play), false);
    },
  ],
  stop: [
    1,
    (play) => {
      stop(play, primary(play), true);
    },
  ],
  start: [3, start],
  killBackend: [
    1,
    (play) => {
      const of = primary(play);
      play.meet("backend killed");
      play.say(() => `a backend of ${of.id} is killed: it recovers in place`);
      play.world.recoverInPlace(of);
    },
  ],
  promote: [
    1,
    (play) => {
      promote(play, replica(play));
    },
  ],
  command: [
    1,
    (play) => {
      command(play, primary(play), play.random.chance(20));
    },
  ],
  copy: [
    1,
    (play) => {
      const of = node(play);
      if (play.world.copies.length < MAX_COPIES) play.world.copies.push(of.image());
    },
  ],
  restore: [1, restore],
  clone: [
    1,
    (play) => {
      clone(play, node(play), primary(play), play.random.below(10));
    },
  ],
  cutOff: [1, cutOff],
  heal: [
    1,
    (play) => {
      play.cuts.clear();
    },
  ],
  // Trackers.
  probe: [
    4,
    (play) => {
      play.ask(tracker(play), "node", node(play).id);
    },
  ],
  positions: [
    4,
    (play) => {
      const at = tracker(play);
      const { standing } = at.state.topology;
      if (standing.kind === "following") play.ask(at, "positions", standing.node);
    },
  ],
  answer: [
    3,
    (play) => {
      play.answerRead(tracker(play));
    },
  ],
  help: [
    2,
    (play) => {
      play.help(tracker(play));
    },
  ],
  act: [
    1,
    (play) => {
      play.act(tracker(play));
    },
  ],
  exchange: [
    2,
    (play) => {
      play.exchangeVerdicts(tracker(play));
    },
  ],
  deliver: [
    4,
    (play) => {
      deliverLate(play, false);
    },
  ],
  repeat: [
    1,
    (play) => {
      deliverLate(play, true);
    },
  ],
  tick: [
    2,
    (play) => {
      play.timeMs += play.random.below(3_000);
      for (const at of play.trackers) at.send({ kind: "ticked", nowMs: play.clock(at) });
    },
  ],
  jump: [
    1,
    (play) => {
      const at = tracker(play);
      play.meet("clock jumped");
      at.skewMs += play.random.chance(50) ? 4_000 : 120_000;
      at.send({ kind: "ticked", nowMs: play.clock(at) });
    },
  ],
  save: [
    3,
    (play) => {
      tracker(play).flush(play.random.chance(60));
    },
  ],
  killTracker: [
    1,
    (play) => {
      restartTracker(play, 0);
    },
  ],
  tear: [
    1,
    (play) => {
      if (play.setting.tears) restartTracker(play, 1 + play.random.below(4));
    },
  ],
};
