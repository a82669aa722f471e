// The command `switchover`: looks, takes the next step, and looks again, until the node is the
// primary and all others follow it. It remembers nothing between two runs.
import { readAuthority } from "@highwater/authority";
import { type NodeSpec } from "@highwater/protocol";
import { realClock, sleep } from "@highwater/runtime";
import { POSTGRES_DEFAULTS, PostgresStore } from "@highwater/store";
import { roleUrl } from "@highwater/txn-gateway/role-url";
import pg from "pg";
import { type Call } from "../command.ts";
import { operatorOf, topologyOf, trackersOf } from "../deployment.ts";
import { whyNot } from "../postgres.ts";
import { badInput, Refusal } from "../refusal.ts";
import { authorize, callOff, dropSlot, handOver, pointAt, promote, runShell } from "./act.ts";
import { checkSwitchover } from "./checks.ts";
import { type Upstream } from "./conninfo.ts";
import { nextStep, type Scene, type Step } from "./next-step.ts";
import { type Node, observe, type Observed, type Places, sceneOf } from "./observe.ts";
import { Progress } from "./progress.ts";

const WAIT_S = { fallback: 300, min: 0, max: 86_400 };
const POLL_MS = 200;
/** Of one step, by errors that may pass. */
const FAILURES_MAX = 5;

interface Order {
  readonly target: string;
  readonly places: Places;
  readonly upstream: Upstream;
  readonly leftOut: ReadonlySet<string>;
  readonly acceptsUnlogged: boolean;
  readonly restartCommand: string | null;
  readonly waitMs: number;
  readonly by: string;
}

export async function run(call: Call): Promise<number> {
  const { given, print, note } = call;
  const order = orderOf(call);
  const progress = new Progress(order.target, { note, clock: realClock, isSilent: given.flag("json") });
  const signal = call.catchInterrupt();
  try {
    if (await isWanted(order, call, progress)) await new Switchover(order, call, progress, signal).run();
  } finally {
    await order.places.store.close();
  }
  print(given.flag("json") ? JSON.stringify(progress.result(), null, 2) : progress.asText());
  return progress.exitCode;
}

/** Errors: Refusal. */
function orderOf(call: Call): Order {
  const { given, env } = call;
  const target = given.only("node");
  if (target === null) throw badInput("name the node that is to be the primary");
  const topology = topologyOf(null, env);
  const heir = topology.nodes.find(({ id }) => id === target);
  const leftOut = new Set(given.all("without"));
  for (const id of [target, ...leftOut])
    if (!topology.nodes.some((node) => node.id === id)) throw badInput(`${id} is not a node of the topology`);
  if (leftOut.has(target)) throw badInput(`${target} cannot be left out`);
  const authority = readAuthority(env);
  if (authority.faults.length > 0) throw badInput(...authority.faults);
  if (authority.settings.kind === "lease")
    throw new Refusal(
      ["HIGHWATER_AUTHORITY is lease: the HA manager switches over, with patronictl switchover"],
      Progress.EXIT.refused,
    );
  const waitMs = 1_000 * given.whole("wait", WAIT_S);
  const admin = given.text("admin");
  const specs = topology.nodes.map((spec) =>
    admin === null ? spec : { ...spec, url: roleUrl(spec.url, admin, undefined) },
  );
  const trackers = trackersOf(call);
  const store = new PostgresStore({
    ...POSTGRES_DEFAULTS,
    nodes: specs,
    clock: realClock,
    helper: "switchover",
    poolSize: 1,
  });
  return {
    target,
    leftOut,
    waitMs,
    places: { specs, store, clock: realClock, trackers },
    upstream: upstreamOf(given.text("address"), heir),
    acceptsUnlogged: given.flag("accept-unlogged"),
    restartCommand: given.text("restart-command"),
    by: operatorOf(call),
  };
}

/** As other servers reach the node. */
function upstreamOf(given: string | null, heir: NodeSpec | undefined): Upstream {
  if (given === null) {
    const { hostname, port, searchParams } = new URL(heir?.url ?? "postgresql:///");
    const host = searchParams.get("host") ?? decodeURIComponent(hostname).replaceAll(/[[\]]/g, "");
    return { host, port: searchParams.get("port") ?? (port === "" ? "5432" : port) };
  }
  const [, bracketed, plain, port = "5432"] =
    /^(?:\[([0-9a-fA-F:]+)\]|([^\s:]+))(?::([0-9]{1,5}))?$/.exec(given) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined) throw badInput(`--address ${given} must be HOST or HOST:PORT`);
  return { host, port };
}

/** Shows what is to be done. False: it is not wanted, or not possible. Errors: Refusal. */
async function isWanted(order: Order, call: Call, progress: Progress): Promise<boolean> {
  const { given, ask } = call;
  const found = await look(order, new Set());
  const step = found.step.kind === "hand_over" ? await checked(order, found, progress) : found.step;
  if (step.kind === "refuse") {
    progress.refuse(step.reasons);
    return false;
  }
  progress.plan(found.scene, {
    isOnlyPlan: given.flag("plan"),
    isRestartedHere: order.restartCommand !== null,
  });
  if (given.flag("plan")) return false;
  if (step.kind === "done" || given.flag("yes")) return true;
  if (ask === null) throw badInput("add --yes to do it, or --plan to see only what would be done");
  if (/^y(?:es)?$/i.test((await ask(`Make ${order.target} the primary now? [y/N] `)).trim())) return true;
  progress.refuse(["you did not confirm"]);
  return false;
}

interface Look {
  readonly observed: Observed;
  readonly scene: Scene;
  readonly step: Step;
}

async function look({ places, target, leftOut }: Order, pointed: ReadonlySet<string>): Promise<Look> {
  const observed = await observe(places);
  const scene = sceneOf(observed, { target, leftOut, pointed });
  const powerless = [...observed.nodes.values()].filter(({ server }) => server?.isSuperuser === false);
  if (powerless.length > 0) {
    const names = powerless.map(({ spec }) => spec.id).join(", ");
    const how = "name one with --admin. Its password comes from PGPASSWORD or ~/.pgpass";
    const reason = `the role is no superuser on ${names}: ${how}`;
    return { observed, scene, step: { kind: "refuse", reasons: [reason] } };
  }
  if (observed.epoch !== null) return { observed, scene, step: nextStep(scene) };
  const reason =
    observed.known.rivals.length === 0
      ? "no node that answers has an epoch: start the services first"
      : "none of the known epochs has ended the others: highwater failover candidate says how to settle that";
  return { observed, scene, step: { kind: "refuse", reasons: [reason] } };
}

/** What stands in the way of handing over. */
async function checked(order: Order, { observed, scene, step }: Look, progress: Progress): Promise<Step> {
  const { places, target, leftOut, acceptsUnlogged } = order;
  const unlogged = await places.store.unloggedTables(scene.owner);
  const { obstacles, warnings } = checkSwitchover(observed, unlogged, { target, leftOut, acceptsUnlogged });
  for (const warning of warnings) progress.warn(warning);
  return obstacles.length > 0 ? { kind: "refuse", reasons: obstacles } : step;
}

class Switchover {
  readonly #order: Order;
  readonly #call: Call;
  readonly #progress: Progress;
  readonly #signal: AbortSignal;
  readonly #pointed = new Set<string>();
  /** Steps that nothing but another person can undo. */
  readonly #done = new Set<Step["kind"]>();
  #failures = 0;
  #waitsSinceMs: number | null = null;

  constructor(order: Order, call: Call, progress: Progress, signal: AbortSignal) {
    this.#order = order;
    this.#call = call;
    this.#progress = progress;
    this.#signal = signal;
  }

  async run(): Promise<void> {
    const { clock } = this.#order.places;
    while (!this.#signal.aborted) {
      const found = await look(this.#order, this.#pointed);
      this.#progress.see(found.scene);
      if (await this.#take(found)) return;
      await sleep(clock, POLL_MS, this.#signal);
    }
    this.#progress.stop("interrupted");
  }

  /** True: it is over. */
  async #take(found: Look): Promise<boolean> {
    const { step } = found;
    if (step.kind === "refuse") {
      this.#progress.refuse(step.reasons);
      return true;
    }
    if (step.kind === "done") {
      this.#progress.finish(found.observed.epoch);
      return true;
    }
    if (step.kind === "wait") return this.#wait(step.reason);
    if (step.kind === "restart" && (this.#done.has("restart") || this.#order.restartCommand === null)) {
      this.#progress.askForRestart(step.node);
      return this.#wait(`${step.node} is still the primary: it becomes a standby when it is restarted`);
    }
    if (step.kind === "hand_over" && this.#done.has("hand_over")) {
      this.#progress.refuse([`${step.node} is not handed over any more: another person has called it off`]);
      return true;
    }
    try {
      if (!(await this.#act(step, found))) return this.#wait("another run of this command has the turn");
      this.#done.add(step.kind);
      [this.#failures, this.#waitsSinceMs] = [0, null];
    } catch (cause) {
      if (cause instanceof Refusal)
        this.#progress[cause.exitCode === Progress.EXIT.refused ? "refuse" : "fail"](cause.lines);
      else if (!mayPass(cause) || ++this.#failures >= FAILURES_MAX) this.#progress.fail([whyNot(cause)]);
      else return this.#wait(whyNot(cause));
      return true;
    }
    return false;
  }

  #wait(reason: string): boolean {
    const { places, waitMs } = this.#order;
    const nowMs = places.clock.monotonicMs();
    this.#waitsSinceMs ??= nowMs;
    this.#progress.wait(reason);
    if (nowMs - this.#waitsSinceMs < waitMs) return false;
    this.#progress.stop(reason);
    return true;
  }

  /** False: it was not done. */
  async #act(step: Exclude<Step, { kind: "refuse" | "wait" | "done" }>, found: Look): Promise<boolean> {
    const { upstream, places, by, restartCommand } = this.#order;
    const { nodes } = found.observed;
    const heir = nodeOf(nodes, this.#order.target);
    switch (step.kind) {
      case "hand_over": {
        const ready = await checked(this.#order, found, this.#progress);
        if (ready.kind === "refuse") throw new Refusal(ready.reasons, Progress.EXIT.refused);
        const standbys = [...nodes.values()].filter((node) => node !== heir);
        await handOver({ owner: nodeOf(nodes, step.node), heir, standbys, upstream, clock: places.clock });
        break;
      }
      case "call_off":
        await callOff(nodeOf(nodes, step.node));
        break;
      case "restart":
        this.#progress.restarts(step.node);
        await runShell(restartCommand ?? "", step.node, this.#call.env);
        return true;
      case "promote": {
        const old = nodeOf(nodes, step.arbiter);
        const isDone = await promote(nodeOf(nodes, step.node).spec, old.spec, async () => {
          const again = (await look(this.#order, this.#pointed)).step;
          return again.kind === "promote" && again.node === step.node;
        });
        if (!isDone) return false;
        this.#progress.promoted(step, old.server?.stoppedCleanly ?? false);
        return true;
      }
      case "authorize":
        await authorize(heir, found.observed, { by, reason: `switchover to ${step.node}` });
        break;
      case "follow":
        for (const node of step.nodes) {
          await pointAt(nodeOf(nodes, node), { heir, upstream, clock: places.clock });
          this.#pointed.add(node);
        }
        break;
      case "tidy":
        for (const { node, slot } of step.slots) await dropSlot(nodeOf(nodes, node).spec, slot);
        break;
    }
    this.#progress.did(step, this.#order.target);
    return true;
  }
}

/** Servers start and stop meanwhile, and so do connections. */
function mayPass(cause: unknown): boolean {
  return !(cause instanceof pg.DatabaseError) || /^(?:08|57P0[123]|53300)/.test(cause.code ?? "");
}

function nodeOf(nodes: Observed["nodes"], id: string): Node {
  const node = nodes.get(id);
  if (node === undefined) throw new Error(`${id} is not in the topology`);
  return node;
}
