// Goal: whatever happens between the steps of switchovers, however many run and wherever they die,
// two nodes are never writable, and the one that is writable has everything that was committed; and
// from everywhere a switchover reaches its end. Method: all states of a small model of three
// servers, in which commits, streams, restarts, crashes and the steps of three switchovers to
// different nodes come in every order.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Offset } from "@highwater/protocol";
import { nextStep, type NodeState, type Scene, type Step } from "./next-step.ts";

type Name = "a" | "b" | "c";
const NAMES: readonly Name[] = ["a", "b", "c"];
/** What keeps the model finite. */
const COMMITS_MAX = 1;
const PROMOTIONS_MAX = 2;
const FAILURES_MAX = 1;
const STATES_MAX = 1_000_000;

interface Server {
  role: "primary" | "replica" | null;
  applied: number;
  timeline: number;
  upstream: Name;
  /** It follows its upstream only while that is writable. */
  isChoosy: boolean;
  /** Its standby.signal: absent, or where it hands over to; "x": made a standby by other means. */
  signal: Name | "x" | null;
  /** A promotion: requested, or taken up by the server. */
  promotion: "requested" | "under_way" | null;
}

interface World {
  servers: Record<Name, Server>;
  owner: Name;
  isCommanded: boolean;
  committed: number;
  /** Servers that stopped by themselves. */
  failures: number;
  /** The session that has the turn to promote. Null: none has it. */
  turn: Name | null;
}

function begin(): World {
  const replica = (upstream: Name): Server => ({
    ...{ role: "replica", applied: 0, timeline: 1, upstream, isChoosy: false, signal: "x", promotion: null },
  });
  return {
    servers: { a: { ...replica("b"), role: "primary", signal: null }, b: replica("a"), c: replica("a") },
    ...{ owner: "a", isCommanded: true, committed: 0, failures: 0, turn: null },
  };
}

function copy(world: World): World {
  const { a, b, c } = world.servers;
  return { ...world, servers: { a: { ...a }, b: { ...b }, c: { ...c } } };
}

function keyOf({ servers, ...rest }: World): string {
  const valuesOf = (part: object): unknown[] => Object.values(part);
  return [...NAMES.flatMap((name) => valuesOf(servers[name])), ...valuesOf(rest)].join(" ");
}

function sceneOf({ servers, owner, isCommanded }: World, target: Name): Scene {
  const states = NAMES.map((name): NodeState => {
    const { role, applied, timeline, upstream, isChoosy, signal, promotion } = servers[name];
    return {
      ...{ node: name, role, timeline, counts: role !== null, why: null, applied: BigInt(applied) as Offset },
      hasEpoch: role === "primary" && owner === name,
      waitsForLog: role === "replica" && promotion !== "under_way",
      isPromoting: promotion === "requested",
      signal:
        signal === null
          ? { kind: "absent" }
          : signal === "x"
            ? { kind: "foreign" }
            : { kind: "hands_over", to: signal },
      followsTarget:
        role === "replica" && upstream === target && !isChoosy && servers[target].role === "primary",
    };
  });
  const isPrimary = servers[target].role === "primary";
  return {
    ...{ target, owner, leftOut: new Set(), pointed: new Set(), leftSlots: [] },
    nodes: new Map(states.map((state) => [state.node, state])),
    authority: !isPrimary || (owner === target && isCommanded) ? "settled" : "needs_command",
  };
}

/** With what checks.ts demands before a handover. */
function stepOf(world: World, target: Name): Step {
  const step = nextStep(sceneOf(world, target));
  const { upstream, isChoosy } = world.servers[target];
  if (step.kind !== "hand_over" || (upstream === step.node && !isChoosy)) return step;
  return { kind: "refuse", reasons: ["no stream feeds it"] };
}

/** Carries out a step, but for the end of a promotion, which comes later. */
function act(world: World, step: Step, run: Name): void {
  const { servers } = world;
  switch (step.kind) {
    case "hand_over": {
      const old = servers[step.node as Name];
      [old.signal, old.upstream, old.isChoosy] = [run, run, true];
      break;
    }
    case "call_off":
      servers[step.node as Name].signal = null;
      break;
    case "restart":
      restart(servers[step.node as Name]);
      break;
    case "promote":
      // With the turn it looks again, which in the model is the same look.
      if (world.turn !== null) break;
      world.turn = run;
      servers[step.node as Name].promotion = "requested";
      break;
    case "authorize":
      [world.owner, world.isCommanded] = [step.node as Name, true];
      break;
    case "follow":
      for (const name of step.nodes as Name[])
        [servers[name].upstream, servers[name].isChoosy] = [run, false];
      break;
    default:
      break;
  }
}

function restart(server: Server): void {
  if (server.role === null) return;
  server.promotion = null;
  if (server.signal !== null) server.role = "replica";
}

/** Everything that can happen next. */
function successors(world: World): World[] {
  const next: World[] = [];
  const happens = (change: (after: World) => boolean | undefined): void => {
    const after = copy(world);
    if (change(after) !== false) next.push(after);
  };
  for (const name of NAMES) {
    const of = (after: World): Server => after.servers[name];
    happens((after) => {
      if (of(after).role !== "primary" || after.committed >= COMMITS_MAX) return false;
      after.committed = ++of(after).applied;
      return true;
    });
    happens((after) => streams(after.servers, name));
    happens((after) => {
      restart(of(after));
      return true;
    });
    happens((after) => {
      if (of(after).role === null || after.failures++ >= FAILURES_MAX) return false;
      [of(after).role, of(after).promotion] = [null, null];
      return true;
    });
    happens((after) => {
      if (of(after).role !== null) return false;
      of(after).role = of(after).signal === null ? "primary" : "replica";
      return true;
    });
    happens((after) => {
      if (of(after).promotion === null) return false;
      if (of(after).timeline > PROMOTIONS_MAX) return false;
      if (of(after).promotion === "requested") of(after).promotion = "under_way";
      else
        Object.assign(of(after), {
          role: "primary",
          promotion: null,
          signal: null,
          timeline: of(after).timeline + 1,
        });
      return true;
    });
    // The services begin the epoch of a node that was promoted, before it is authorized.
    happens((after) => {
      if (of(after).role !== "primary" || after.owner === name) return false;
      [after.owner, after.isCommanded] = [name, false];
      return true;
    });
    happens((after) => {
      act(after, stepOf(after, name), name);
      return true;
    });
    // A run that has the turn waits until its node is writable, or dies.
    happens((after) => {
      if (after.turn !== name) return false;
      after.turn = null;
      return true;
    });
  }
  return next;
}

function streams(servers: World["servers"], name: Name): boolean {
  const own = servers[name];
  const upstream = servers[own.upstream];
  if (own.role !== "replica" || own.promotion === "under_way" || own.upstream === name) return false;
  if (upstream.role === null || (own.isChoosy && upstream.role !== "primary")) return false;
  if (upstream.applied < own.applied) return false;
  if (upstream.applied === own.applied && upstream.timeline === own.timeline) return false;
  [own.applied, own.timeline] = [upstream.applied, upstream.timeline];
  return true;
}

function faultOf({ servers, committed }: World): string | null {
  const writable = NAMES.filter((name) => servers[name].role === "primary");
  if (writable.length > 1) return "two are writable";
  return writable.some((name) => servers[name].applied < committed) ? "a commit is missing" : null;
}

/** All servers run, streams flow, and one switchover runs alone. */
function finish(from: World, target: Name): Step {
  const world = copy(from);
  world.turn = null;
  for (let turns = 0; turns < 40; turns++) {
    for (const name of NAMES) {
      const server = world.servers[name];
      server.role ??= server.signal === null ? "primary" : "replica";
      if (server.promotion !== null)
        Object.assign(server, {
          role: "primary",
          promotion: null,
          signal: null,
          timeline: server.timeline + 1,
        });
      streams(world.servers, name);
    }
    assert.equal(faultOf(world), null);
    const step = stepOf(world, target);
    if (step.kind === "done" || step.kind === "refuse") return step;
    act(world, step, target);
    world.turn = null;
  }
  return { kind: "wait", on: target, reason: `it does not end: ${JSON.stringify(world)}` };
}

test("no order of steps, failures and switchovers loses a commit or makes two primaries", () => {
  const first = begin();
  const seen = new Map<string, { readonly world: World; readonly from: string | null }>();
  seen.set(keyOf(first), { world: first, from: null });
  // A map that grows while it is read is read to its end.
  for (const [key, { world }] of seen) {
    const fault = faultOf(world);
    if (fault !== null) assert.fail(`${fault}:\n${historyOf(seen, key).join("\n")}`);
    for (const after of successors(world)) {
      const next = keyOf(after);
      if (!seen.has(next)) seen.set(next, { world: after, from: key });
    }
    assert.ok(seen.size < STATES_MAX, "the model is finite");
  }
  const changed = [...seen.values()].filter(({ world }) => world.servers.b.role === "primary");
  assert.ok(changed.length > 100, "switchovers happen in it");
  for (const [key, { world }] of seen)
    for (const target of NAMES) {
      const step = finish(world, target);
      if (step.kind === "done" || step.kind === "refuse") continue;
      assert.fail(`a switchover to ${target} does not end:\n${historyOf(seen, key).join("\n")}`);
    }
});

/** From the first state on. */
function historyOf(seen: ReadonlyMap<string, { readonly from: string | null }>, key: string): string[] {
  const from = seen.get(key)?.from ?? null;
  return [...(from === null ? [] : historyOf(seen, from)), key];
}
