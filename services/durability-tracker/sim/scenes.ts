// Whole scenes, so that scripts get anywhere, and the peace at the end of each: the same operations, one after the other.
import { type Authority } from "@highwater/authority";
import { type EpochId, outranks } from "@highwater/protocol";
import { type SimTracker } from "./tracker.ts";
import { type Act, clone, command, connect, OPS, present, primary, promote, size } from "./ops.ts";
import { type SimNode } from "./node.ts";
import { type Play } from "./play.ts";

const EVERYTHING = 1_000;
/** After so long a gateway has tried everything again that had failed. */
const TRIED_AGAIN_MS = 6_000;

async function all(play: Play, ...names: string[]): Promise<void> {
  for (const name of names) {
    await OPS[name]?.[1](play);
    await play.rest();
  }
}

/** Every tracker and gateway asks every node. */
async function look(play: Play): Promise<void> {
  const { nodes } = play.world;
  await play.gatewaysLook(play.gateways, nodes);
  for (const tracker of play.trackers) {
    for (let round = 0; round < 2; round++) {
      for (const { id } of nodes) play.ask(tracker, "node", id);
      const { standing } = tracker.state.topology;
      if (standing.kind === "following") play.ask(tracker, "positions", standing.node);
    }
  }
}

/** Everything that is open gets its answer. */
function answerAll(play: Play): void {
  for (const tracker of play.trackers) {
    for (let open = 20; open > 0 && tracker.reads.length > 0; open--) play.answerRead(tracker);
    for (let open = tracker.helps.length; open > 0; open--) play.help(tracker);
  }
  for (const { store } of play.gateways) for (const question of store.questions) store.answer(question, true);
}

async function catchUp(play: Play): Promise<void> {
  const { nodes } = play.world;
  for (const node of nodes) if (node.isPrimary) node.flush(EVERYTHING);
  for (const node of nodes) {
    play.world.receive(node, 1 + play.random.below(20));
    node.flush(play.random.chance(80) ? EVERYTHING : 2);
    play.world.replay(node, EVERYTHING);
  }
  play.world.truth.witness(nodes);
  await look(play);
}

/** The best replica, or one that is worse. */
function successor(play: Play): SimNode | undefined {
  const candidates = play.world.nodes.filter(({ role, isUp }) => role === "replica" && isUp);
  candidates.sort((a, b) => b.flushed - a.flushed);
  return play.random.chance(60) ? candidates[0] : play.random.pick(candidates);
}

async function failover(play: Play): Promise<void> {
  if (play.random.chance(60)) await all(play, "killPrimary");
  promote(play, successor(play));
  if (play.random.chance(50)) play.world.noise(primary(play), size(play));
  await look(play);
  await look(play);
}

async function crashOver(play: Play): Promise<void> {
  await all(play, "killPrimary", "start", "noise");
  await look(play);
  await look(play);
}

async function rejoin(play: Play): Promise<void> {
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

/** An older history is chosen over the current one. */
async function revert(play: Play): Promise<void> {
  const ruler = rulerOf(play);
  const other = play.random.pick(play.world.nodes.filter((node) => node !== ruler && node.isUp));
  if (other === undefined) return;
  play.meet("history given up");
  promote(play, other);
  command(play, other, false);
  await look(play);
  await look(play);
  if (play.random.chance(50)) await rejoin(play);
}

/** A clean hand-over: the primary stops, a node with all of its log is promoted, and the old one follows. */
async function switchOver(play: Play): Promise<void> {
  const ruler = rulerOf(play);
  if (ruler === undefined) return;
  await catchUp(play);
  ruler.flush(EVERYTHING);
  const next = play.world.nodes.find(
    (node) => node.role === "replica" && node.isUp && node.log.at(-1) === ruler.log.at(-1),
  );
  play.world.stop(ruler, true, false);
  if (next === undefined) return;
  play.meet("switchover");
  promote(play, next);
  await look(play);
  await look(play);
}

async function busy(play: Play): Promise<void> {
  await all(play, "run", "read", "run", "noise", "begin", "commit", "acknowledge", "acknowledge");
}

export const SCENES: Readonly<Record<string, readonly [weight: number, act: Act]>> = {
  look: [4, look],
  catchUp: [4, catchUp],
  busy: [4, busy],
  close: [
    3,
    async (play) => {
      answerAll(play);
      await catchUp(play);
      await all(play, "tick");
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
 * Peace: the network is whole, everything is delivered, all agree on one primary, all others follow it, and every
 * question is answered. Returns that node.
 */
export async function settleDown(play: Play): Promise<SimNode> {
  const { world, trackers, gateways } = play;
  play.say(() => "peace");
  play.calm();
  for (const node of world.nodes) world.start(node);
  for (const tracker of trackers)
    for (const message of tracker.inbox.splice(0)) play.deliver(tracker, message);
  await look(play);
  const ruler = rulerOf(play) ?? successor(play) ?? world.nodes[0];
  if (ruler === undefined) throw new Error("a world needs a node");
  promote(play, ruler);
  world.reap();
  for (const node of world.nodes) {
    if (node === ruler) continue;
    if (node.role === "primary" || !world.follows(node, ruler)) world.clone(node, ruler, EVERYTHING, false);
    world.connect(node, ruler);
  }
  await crown(play, ruler);
  for (let round = 0; round < 12; round++) {
    for (const { store, clock } of gateways) {
      for (const run of store.runs) store.cutOff(run);
      clock.skip(TRIED_AGAIN_MS);
    }
    await play.rest();
    for (const tracker of trackers) for (const token of world.truth.tokens) present(play, tracker, token);
    for (let open = 5; open > 0; open--) answerAll(play);
    ruler.flush(EVERYTHING);
    for (const node of world.nodes) {
      world.receive(node, EVERYTHING);
      node.flush(EVERYTHING);
      world.replay(node, EVERYTHING);
    }
    world.truth.witness(world.nodes);
    const { intentPatienceMs, intentGraceMs } = play.config;
    play.timeMs += round === 5 ? intentPatienceMs : round === 10 ? intentGraceMs : 10;
    await look(play);
    for (const tracker of trackers) {
      play.timeMs++;
      tracker.send({ kind: "ticked", nowMs: play.clock(tracker) });
      play.exchangeVerdicts(tracker);
      tracker.flush(true);
    }
    play.check();
  }
  return ruler;
}

/** Until everybody takes the node for the primary; an operator says so if they do not find it out by themselves. */
async function crown(play: Play, ruler: SimNode): Promise<void> {
  for (let round = 0; round < 6; round++) {
    await look(play);
    for (const tracker of play.trackers) play.act(tracker);
    await look(play);
    if (everybodyFollows(play, ruler)) return;
    if (round > 0) command(play, ruler, false);
  }
  const views = authoritiesOf(play).map(({ name, authority }) => `${name}: ${JSON.stringify(authority)}`);
  throw new Error(`nobody could make them agree on a primary: ${views.join("; ")}`);
}

function authoritiesOf({ trackers, gateways }: Pick<Play, "trackers" | "gateways">): {
  readonly name: string;
  readonly authority: Authority;
}[] {
  return [...trackers.map(({ name, watcher: { authority } }) => ({ name, authority })), ...gateways];
}

/** No service takes another node for the primary, and none waits for an epoch that is no more, but may have ended this one. */
function everybodyFollows({ trackers, gateways, world: { truth } }: Play, { epoch }: SimNode): boolean {
  if (epoch === null) return false;
  const isKing = (authority: Authority): boolean => authority.kind === "primary" && authority.epoch === epoch;
  if (!authoritiesOf({ trackers, gateways }).every(({ authority }) => isKing(authority))) return false;
  const isOver = ({ state }: SimTracker, id: EpochId): boolean => {
    const { ancestry, epochs } = state.topology;
    if (id === epoch || outranks(ancestry, id, epochs)) return true;
    // Of an epoch whose record it has not seen, it learns the parent from tokens and no more.
    const from = epochs.has(id) ? id : truth.parentOf(id);
    const chain = from === null ? [] : epochs.ancestry(from);
    const common = chain.find((record) => ancestry.some((own) => own.id === record.id));
    return common !== undefined && common.id !== epoch && !outranks(chain.reverse(), epoch, epochs);
  };
  return trackers.every((tracker) => [...truth.epochs.keys()].every((id) => isOver(tracker, id)));
}
