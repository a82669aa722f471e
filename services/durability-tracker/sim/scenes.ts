// Whole scenes, so that scripts get anywhere, and the peace at the end of each: the same operations, one after the other.
import { type EpochId, outranks } from "@highwater/protocol";
import { type SimGateway } from "./gateway.ts";
import { type SimTracker } from "./tracker.ts";
import { type Act, clone, command, connect, OPS, present, primary, promote, size } from "./ops.ts";
import { type SimNode } from "./node.ts";
import { type Play } from "./play.ts";

const EVERYTHING = 1_000;

function all(play: Play, ...names: string[]): void {
  for (const name of names) OPS[name]?.[1](play);
}

/** Every tracker and gateway asks every node. */
function look(play: Play): void {
  const { nodes } = play.world;
  for (const gateway of play.gateways) play.gatewayLooks(gateway, nodes);
  for (const tracker of play.trackers) {
    for (let round = 0; round < 2; round++) {
      for (const { id } of nodes) play.ask(tracker, "node", id);
      const { standing } = tracker.state;
      if (standing.kind === "reigning") play.ask(tracker, "positions", standing.node);
    }
  }
}

/** Everything that is open gets its answer. */
function answerAll(play: Play): void {
  for (const tracker of play.trackers) {
    for (let open = 20; open > 0 && tracker.reads.length > 0; open--) play.answerRead(tracker);
    for (let open = tracker.helps.length; open > 0; open--) play.help(tracker);
  }
}

function catchUp(play: Play): void {
  const { nodes } = play.world;
  for (const node of nodes) if (node.isPrimary) node.flush(EVERYTHING);
  for (const node of nodes) {
    play.world.receive(node, 1 + play.random.below(20));
    node.flush(play.random.chance(80) ? EVERYTHING : 2);
    play.world.replay(node, EVERYTHING);
  }
  play.world.truth.witness(nodes);
  look(play);
}

/** The best replica, or one that is worse. */
function successor(play: Play): SimNode | undefined {
  const candidates = play.world.nodes.filter(({ role, isUp }) => role === "replica" && isUp);
  candidates.sort((a, b) => b.flushed - a.flushed);
  return play.random.chance(60) ? candidates[0] : play.random.pick(candidates);
}

function failover(play: Play): void {
  if (play.random.chance(60)) all(play, "killPrimary");
  promote(play, successor(play));
  if (play.random.chance(50)) play.world.noise(primary(play), size(play));
  look(play);
  look(play);
}

function crashOver(play: Play): void {
  all(play, "killPrimary", "start", "noise");
  look(play);
  look(play);
}

function rejoin(play: Play): void {
  const ruler = rulerOf(play);
  if (ruler === undefined) return;
  for (const node of play.world.nodes) {
    if (node === ruler) continue;
    if (!node.isUp || node.role === "primary" || !play.world.follows(node, ruler))
      clone(play, node, ruler, play.random.below(10));
    connect(play, node, ruler);
  }
}

/** Where most of the trackers believe the primary to be. */
function rulerOf(play: Play): SimNode | undefined {
  for (const { watcher } of play.trackers) {
    const { authority } = watcher;
    const node = authority.kind === "primary" ? play.world.named(authority.node) : undefined;
    if (node?.isPrimary === true) return node;
  }
  return play.world.nodes.find(({ isPrimary }) => isPrimary);
}

/** An older history is chosen over the one that reigns. */
function revert(play: Play): void {
  const ruler = rulerOf(play);
  const other = play.random.pick(play.world.nodes.filter((node) => node !== ruler && node.isUp));
  if (other === undefined) return;
  play.meet("history given up");
  promote(play, other);
  command(play, other, false);
  look(play);
  look(play);
  if (play.random.chance(50)) rejoin(play);
}

/** A clean hand-over: the primary stops, whoever has all of it is promoted, and the old one follows. */
function switchOver(play: Play): void {
  const ruler = rulerOf(play);
  if (ruler === undefined) return;
  catchUp(play);
  ruler.flush(EVERYTHING);
  const next = play.world.nodes.find(
    (node) => node.role === "replica" && node.isUp && node.log.at(-1) === ruler.log.at(-1),
  );
  play.world.stop(ruler, true, false);
  if (next === undefined) return;
  play.meet("switchover");
  promote(play, next);
  look(play);
  look(play);
}

function busy(play: Play): void {
  all(play, "run", "read", "run", "noise", "begin", "commit", "acknowledge", "acknowledge");
}

export const SCENES: Readonly<Record<string, readonly [weight: number, act: Act]>> = {
  look: [4, look],
  catchUp: [4, catchUp],
  busy: [4, busy],
  close: [
    3,
    (play) => {
      answerAll(play);
      catchUp(play);
      all(play, "tick");
    },
  ],
  failover: [3, failover],
  crashOver: [2, crashOver],
  rejoin: [2, rejoin],
  follow: [
    1,
    (play) => {
      // Whatever they have on their disks: some of them cannot follow, and look as if they did.
      const ruler = rulerOf(play);
      if (ruler !== undefined) for (const node of play.world.nodes) connect(play, node, ruler);
    },
  ],
  revert: [1, revert],
  switchOver: [1, switchOver],
};

/**
 * Peace: the network is whole, everything is delivered, one node reigns for everybody, all others follow it, and every
 * question is answered. Returns that node.
 */
export function settleDown(play: Play): SimNode {
  const { world, trackers, gateways } = play;
  play.say(() => "peace");
  play.calm();
  for (const node of world.nodes) world.start(node);
  for (const tracker of trackers)
    for (const message of tracker.inbox.splice(0)) play.deliver(tracker, message);
  look(play);
  const ruler = rulerOf(play) ?? successor(play) ?? world.nodes[0];
  if (ruler === undefined) throw new Error("a world needs a node");
  promote(play, ruler);
  world.reap();
  for (const node of world.nodes) {
    if (node === ruler) continue;
    if (node.role === "primary" || !world.follows(node, ruler)) world.clone(node, ruler, EVERYTHING, false);
    world.connect(node, ruler);
  }
  crown(play, ruler);
  for (let round = 0; round < 12; round++) {
    for (const gateway of gateways)
      for (const phase of ["announced", "committed", "unknown", "settled"] as const)
        for (const attempt of gateway.open(phase)) gateway.settle(attempt);
    for (const tracker of trackers) for (const token of world.truth.tokens) present(play, tracker, token);
    for (let open = 5; open > 0; open--) answerAll(play);
    ruler.flush(EVERYTHING);
    for (const node of world.nodes) {
      world.receive(node, EVERYTHING);
      node.flush(EVERYTHING);
      world.replay(node, EVERYTHING);
    }
    world.truth.witness(world.nodes);
    play.timeMs += round === 5 ? play.config.intentPatienceMs : 10;
    look(play);
    for (const tracker of trackers) {
      play.timeMs++;
      tracker.send({ kind: "ticked", nowMs: play.clock(tracker) });
      play.exchangeWords(tracker);
    }
    play.check();
  }
  return ruler;
}

/** Until everybody takes the node for the primary; an operator says so if they do not find it out by themselves. */
function crown(play: Play, ruler: SimNode): void {
  for (let round = 0; round < 6; round++) {
    look(play);
    for (const tracker of play.trackers) play.act(tracker);
    look(play);
    if (everybodyFollows(play, ruler)) return;
    if (round > 0) command(play, ruler, false);
  }
  const views = [...play.trackers, ...play.gateways].map(
    ({ name, watcher }) => `${name}: ${JSON.stringify(watcher.authority)}`,
  );
  throw new Error(`nobody could make them agree on a primary: ${views.join("; ")}`);
}

/** Nobody takes another for the primary, and nobody waits for an epoch that is no more, but may have ended this one. */
function everybodyFollows({ trackers, gateways, world: { truth } }: Play, { epoch }: SimNode): boolean {
  if (epoch === null) return false;
  const isKing = ({ watcher: { authority } }: SimTracker | SimGateway): boolean =>
    authority.kind === "primary" && authority.epoch === epoch;
  if (![...trackers, ...gateways].every(isKing)) return false;
  const isOver = ({ state: { ancestry, epochs } }: SimTracker, id: EpochId): boolean => {
    if (id === epoch || outranks(ancestry, id, epochs)) return true;
    // Of an epoch whose record it has not seen, tokens tell the parent and no more.
    const from = epochs.has(id) ? id : truth.parentOf(id);
    const chain = from === null ? [] : epochs.ancestry(from);
    const common = chain.find((record) => ancestry.some((own) => own.id === record.id));
    return common !== undefined && common.id !== epoch && !outranks(chain.reverse(), epoch, epochs);
  };
  return trackers.every((tracker) => [...truth.epochs.keys()].every((id) => isOver(tracker, id)));
}
