// One simulated gateway process: the product's gateway, over a simulated clock, store and network, and the clients that call it.
// A client knows only what it was answered.
import { type Authority } from "@highwater/authority";
import {
  decodeToken,
  type EpochId,
  type EpochRecord,
  HighwaterError,
  NO_ID,
  parseOffset,
  type TxnId,
} from "@highwater/protocol";
import { DEFAULT_LIMITS, type Log, type Principal } from "@highwater/service";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";
import { type Store } from "@highwater/store";
import {
  type Accepted,
  type Config,
  Gateway,
  type HeldResponse,
  loadConfig,
} from "@highwater/txn-gateway/embedded";
import { SimClock } from "./clock.ts";
import { type Rec, type SimNode } from "./node.ts";
import { type Run, SimStore } from "./store.ts";
import { type Message, type SimTracker } from "./tracker.ts";
import { SimTransport, urlOf } from "./transport.ts";
import { ownerOf } from "./truth.ts";
import { type World } from "./world.ts";

/** What a client wants done, once. */
export interface Request {
  readonly n: number;
  readonly ids: TxnId[];
  /** Ids that never happened by its answer to the client, and the epoch that says so. */
  readonly refused: Map<TxnId, EpochId>;
  /** Its client knows, and would run it again under a new id. */
  isFree: boolean;
  attempts: number;
}

/** What an answer is held against. */
export interface AnswerWitness {
  onRefused(id: TxnId, epoch: EpochId): void;
  onAnswered(id: TxnId, attempt: EpochId, answer: HeldResponse["body"]): void;
  /** An answer of the wire was held, and goes out now. */
  onReleased(held: Held): void;
}

/** A client of the wire that is logged in. */
interface Session {
  readonly primaryEpoch: PrimaryEpoch;
  /** Its connection to the server lives while this is the server's number. */
  readonly sessions: number;
}

/** A commit without a receipt: its answer waits until it is durable, or its session ends. */
export interface Held {
  readonly rec: Rec;
  readonly level: string;
  readonly by: string;
}

type PrimaryEpoch = NonNullable<SimGateway["primaryEpoch"]>;

export interface SimGatewayContext {
  readonly world: World;
  readonly config: Config;
  readonly nowMs: () => number;
  readonly trackers: () => readonly SimTracker[];
  readonly requests: readonly Request[];
  readonly transmit: (tracker: SimTracker, message: Message) => void;
  /** The node, if it is up and the gateway can reach it. */
  readonly reach: (process: string, node: string) => SimNode | null;
  readonly rest: () => Promise<void>;
  readonly say: (what: () => string) => void;
  readonly onEpoch: (by: string, record: EpochRecord) => void;
  readonly witness: AnswerWitness;
  /** What was found wrong where the product would take it for a failure of its own. */
  readonly onFault: (cause: unknown) => void;
}

const QUIET: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };
/** A gateway with trackers waits so long for their word before it looks at the nodes. */
const LEARN_FIRST_MS = 2_000;
const PROBE_INTERVAL_MS = 10;
/** After so long its watcher asks a node again, also one that has not answered. */
export const ASKED_AGAIN_MS = 50;
const MAX_WAIT_MS = 2_000;
/** Refusals before anything has run. A client may run the same under a new id, if it has not tried before. */
const NOT_RUN = new Set([
  "serialization_failure",
  "statement_timeout",
  "epoch_changed",
  "primary_unavailable",
]);
const UNKNOWN = new Set(["commit_unconfirmed", "transaction_in_progress"]);

/** As the gateways of a run are configured. */
export function gatewayConfig(
  topology: { readonly nodes: readonly unknown[]; readonly levels: Readonly<Record<string, unknown>> },
  trackers: number,
  exposureLevel: string,
): Config {
  const loaded = loadConfig(
    {
      ...TEST_DEPLOYMENT,
      GATEWAY_NAME: "gateway",
      GATEWAY_REGION: "east",
      GATEWAY_EXPOSURE_LEVEL: exposureLevel,
      HIGHWATER_TOPOLOGY: JSON.stringify(topology),
      GATEWAY_TRACKERS: Array.from({ length: trackers }, (_, n) => urlOf(n)).join(","),
      GATEWAY_PROBE_INTERVAL_MS: String(PROBE_INTERVAL_MS),
      GATEWAY_TOTAL_TIMEOUT_MS: "5000",
    },
    () => "",
  );
  if (!loaded.ok) throw new Error(loaded.faults.join("; "));
  return loaded.config;
}

interface OnWire {
  readonly size: number;
  readonly level: string;
  readonly isAnswered: boolean;
  /** The gateway has seen its tag. Otherwise it only may have committed. */
  readonly isCommit: boolean;
  /** Its client does not wait until it is durable: it gets a token as soon as there is one. */
  readonly isEarly: boolean;
}

interface Process {
  readonly clock: SimClock;
  readonly store: SimStore;
  readonly transport: SimTransport;
  readonly gateway: Gateway;
}

export class SimGateway {
  readonly n: number;
  readonly #parts: SimGatewayContext;
  #process: Process;
  /** Attempts of this process, by `id/epoch`. */
  #begun: string[] = [];
  /** Of the wire. */
  sessions: Session[] = [];

  constructor(n: number, parts: SimGatewayContext) {
    this.n = n;
    this.#parts = parts;
    this.#process = this.#start();
  }

  #start(): Process {
    const { world, config, nowMs, trackers, requests, transmit, reach, onEpoch } = this.#parts;
    const clock = new SimClock(nowMs);
    const store = new SimStore({
      world,
      reach: (node) => reach(this.process, node),
      onRun: (run) => {
        this.#noteRun(run);
      },
      onEpoch: (record) => {
        onEpoch(this.name, record);
      },
      requestOf: (id) => requests.find(({ ids }) => ids.includes(id))?.n ?? 0,
    });
    const transport = new SimTransport({ clock, gateway: this.n, trackers, transmit });
    const own = { ...config, name: `gateway-${String(this.n + 1)}`, region: this.n === 0 ? "east" : "west" };
    const gateway = new Gateway(own, {
      clock,
      transport,
      log: QUIET,
      rng: { random: () => 0.5 },
      store: store as unknown as Store,
      keys: () => {
        throw new Error("no keys are configured");
      },
      contentsStore: () => {
        throw new Error("nothing is kept");
      },
    });
    gateway.start();
    clock.skip(LEARN_FIRST_MS);
    return { clock, store, transport, gateway };
  }

  get name(): string {
    return `gateway ${String(this.n + 1)}`;
  }

  get process(): string {
    return `g${String(this.n)}`;
  }

  get clock(): SimClock {
    return this.#process.clock;
  }

  get store(): SimStore {
    return this.#process.store;
  }

  get authority(): Authority {
    return this.#process.gateway.primary.authority;
  }

  get primaryEpoch(): { readonly node: string; readonly epoch: EpochId } | null {
    return this.#process.gateway.primary.current;
  }

  /** The nodes answer its watcher. */
  observe(nodes: readonly SimNode[]): void {
    for (const { id } of nodes) this.store.answerProbe(id);
  }

  /** A client sends its request. Null: the gateway does not run it now. */
  async begin(request: Request, id: TxnId, how: Pick<Accepted, "ack" | "level">): Promise<Run | null> {
    const { world, rest } = this.#parts;
    if (this.primaryEpoch === null || world.isFull) return null;
    if (!request.ids.includes(id)) request.ids.push(id);
    request.isFree = false;
    request.attempts++;
    const { gateway, store } = this.#process;
    const before = new Set(store.runs);
    gateway.transactions.run(acceptedOf(request, id, how), { principal: principalOf(request) }).then(
      (answer) => {
        this.#witnessed(() => {
          this.#answered(id, answer);
        });
      },
      (cause: unknown) => {
        this.#witnessed(() => {
          this.#refused(request, id, cause, store);
        });
      },
    );
    // It is announced before anything has left for the database.
    await rest();
    return store.runs.find((run) => run.spec.id === id && !before.has(run)) ?? null;
  }

  /** Logs a client of the wire in. */
  connect(): void {
    const { primaryEpoch } = this;
    const node = primaryEpoch === null ? null : this.#parts.reach(this.process, primaryEpoch.node);
    if (primaryEpoch === null || node?.epoch !== primaryEpoch.epoch) return;
    this.sessions.push({ primaryEpoch, sessions: node.sessions });
  }

  /**
   * A client of the wire commits without a receipt. The server takes it in whatever epoch it is: only the session's connection
   * has to live. Null: it does not. `isAnswered`: the gateway gets the answer, and holds it.
   */
  commitOnWire(session: Session, { size, level, isAnswered, isCommit, isEarly }: OnWire): Held | null {
    const { world, reach, say, witness } = this.#parts;
    const { primaryEpoch } = session;
    const node = reach(this.process, primaryEpoch.node);
    if (node === null || !node.isPrimary || node.sessions !== session.sessions) {
      this.sessions = this.sessions.filter((each) => each !== session);
      return null;
    }
    const held: Held = { rec: world.noise(node, size), level, by: this.name };
    say(() => `a client of the wire commits on ${node.id} up to ${String(held.rec.end)}, by ${this.name}`);
    if (!isAnswered) return held;
    this.#process.gateway.positions.want({
      primaryEpoch,
      level,
      isCommit,
      onPosition: (position) => {
        if (!isEarly) return;
        say(() => `its client gets a token of ${String(position.offset)} in ${short(position.epoch)}`);
        const attempt = position.epoch;
        world.truth.token({ id: NO_ID, attempt, kind: "position", rec: held.rec, request: 0 }, position);
      },
      onEnd: (end) => {
        say(() => `the answer up to ${String(held.rec.end)} that ${this.name} has held: ${end}`);
        if (end === "ended") return;
        this.#witnessed(() => {
          witness.onReleased(held);
        });
      },
    });
    return held;
  }

  #noteRun({ request, spec: { id, epoch } }: Run): void {
    const { world, say } = this.#parts;
    const name = `${id}/${epoch}`;
    this.#begun.push(name);
    world.truth.begun.add(name);
    say(() => `${this.name} takes request ${String(request)} as ${short(id)} in ${short(epoch)}`);
  }

  #witnessed(act: () => void): void {
    try {
      act();
    } catch (cause) {
      this.#parts.onFault(cause);
    }
  }

  #answered(id: TxnId, { body, hold }: HeldResponse): void {
    const { world, say, witness } = this.#parts;
    hold.release();
    const token = decodeToken(body.token);
    const offset = parseOffset(body.position.offset);
    if (token === undefined || offset === undefined)
      throw new Error(`${short(id)} was answered without a place`);
    const epoch = body.position.epoch as EpochId;
    say(() => `${short(id)} is answered as ${body.state} at ${String(offset)} in ${short(epoch)}`);
    const txn = world.truth.txns.find((each) => each.id === id && each.attempt === token.attempt);
    if (txn === undefined)
      throw new Error(`${short(id)} is answered, and never committed in ${short(token.attempt)}`);
    world.truth.token(txn, { epoch, offset });
    witness.onAnswered(id, token.attempt, body);
  }

  #refused(request: Request, id: TxnId, cause: unknown, store: SimStore): void {
    const { say, witness } = this.#parts;
    if (!(cause instanceof HighwaterError)) throw cause;
    const { code } = cause;
    say(() => `${short(id)} is refused by ${this.name}: ${code}`);
    if (code === "transaction_aborted" || code === "transaction_lost") {
      const epoch = store.readIn.get(id);
      if (epoch === undefined) throw new Error(`${short(id)} is refused, and nobody has looked`, { cause });
      witness.onRefused(id, epoch);
      if (!request.refused.has(id)) request.refused.set(id, epoch);
      // It may have been run again since, under another id.
      request.isFree = request.ids.at(-1) === id;
    } else if (NOT_RUN.has(code)) request.isFree = request.attempts === 1;
    else if (!UNKNOWN.has(code)) throw cause;
  }

  /** Killed: nothing more comes of what it had in hand. Another process takes its place. */
  die(): void {
    const { announcedTo, unannounced } = this.#parts.world.truth;
    const { transport } = this.#process;
    const isAnswered = (name: string): boolean =>
      this.#parts.trackers().some(({ n }) => {
        const announcers = announcedTo.get(`${String(n)}/${name}`) ?? [];
        return announcers === "position" || [...announcers].some((by) => transport.announced.has(by));
      });
    for (const name of this.#begun) if (!isAnswered(name)) unannounced.add(name);
    this.#begun = [];
    this.sessions = [];
    transport.close();
    this.#process = this.#start();
  }
}

function acceptedOf({ n }: Request, id: TxnId, how: Pick<Accepted, "ack" | "level">): Accepted {
  return {
    id,
    ...how,
    isolation: "read committed",
    readOnly: false,
    deferrable: false,
    placement: null,
    maxWaitMs: MAX_WAIT_MS,
    maxDelayMs: undefined,
    metadata: { request: String(n) },
    statements: [{ sql: "SELECT $1", params: [String(n)] }],
  };
}

function principalOf({ n }: Request): Principal {
  const owner = ownerOf(n);
  const id = `key ${String(owner)}`;
  return { id, owner, role: null, scopes: new Set(["read", "write"]), limits: DEFAULT_LIMITS };
}

/** The reported end of an id. */
export const short = (id: string): string => {
  const name = id.startsWith("e") ? "e" : "t";
  return `${name}${String(parseInt(id.slice(-12), 16))}`;
};
