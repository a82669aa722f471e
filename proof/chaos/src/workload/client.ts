// One client process: several SDK clients with several sessions, some clients of the bare wire, a
// steady rate of arrivals, and a record of everything. Arrivals do not wait for answers; they are
// dropped while all actors are busy.
import { setTimeout as pause } from "node:timers/promises";
import { Highwater, type HighwaterOptions } from "@highwater/sdk";
import { type Progress } from "../parts.ts";
import { askNowAndThen, RecentTokens } from "./asker.ts";
import { credential, useApiKey } from "./credential.ts";
import { InteractiveActor } from "./interactive-actor.ts";
import { Journal } from "./journal.ts";
import { Late } from "./late.ts";
import { listen } from "./listener.ts";
import { type ClientOptions } from "./messages.ts";
import { type Actor, type Shared } from "./parts.ts";
import { Planner, usualLevel } from "./plan.ts";
import { Promises } from "./promises.ts";
import { Random } from "./random.ts";
import { ReplicaActor } from "./replica-actor.ts";
import { Reruns } from "./reruns.ts";
import { Resolver } from "./resolver.ts";
import { SdkActor } from "./sdk-actor.ts";
import { WireActor } from "./wire-actor.ts";

/** An application's time limits: the SDK's defaults, shorter ones, and very short ones. */
const TIMEOUTS: readonly Pick<HighwaterOptions, "requestTimeoutMs" | "totalTimeoutMs">[] = [
  {},
  { requestTimeoutMs: 4_000, totalTimeoutMs: 12_000 },
  { requestTimeoutMs: 1_200, totalTimeoutMs: 3_000 },
];
/** Actors of each SDK client, with a session and without. */
const SESSIONS = 3;
const LOOSE = 6;
const INTERACTIVE = 2;
const REPLICA = 2;
/** Actors on the PostgreSQL wire. */
const WIRE = [
  { ack: "durable", isPipelined: false },
  { ack: "commit", isPipelined: false },
  { ack: "durable", isPipelined: true },
  { ack: "commit", isPipelined: true },
] as const;
const KINDS = { sdk: 62, interactive: 9, replica: 9, wire: 20 } as const;
const VALUES_PER_ACTOR = 1e6;
const ACTORS_MAX = 1e3;
const PROMISES_LIMIT_MS = 90_000;
/** A tracker's last events may arrive a moment after the promises that they concern. */
const LAST_EVENTS_MS = 500;

export class Client {
  readonly #options: ClientOptions;
  readonly #journal: Journal;
  readonly #shared: Shared;
  readonly #clients: Highwater[] = [];
  readonly #actors: readonly Actor[];
  readonly #idle: Set<Actor>;
  readonly #acting = new Set<Promise<void>>();
  readonly #beside: Promise<void>[] = [];
  readonly #arrivals = new AbortController();
  readonly #all = new AbortController();
  readonly #onFailure: (error: unknown) => void;

  constructor(options: ClientOptions, onFailure: (error: unknown) => void) {
    this.#options = options;
    this.#onFailure = onFailure;
    const { owner } = options;
    useApiKey(owner?.apiKey);
    this.#journal = new Journal(options.dir, `client-${options.name}`, owner?.name);
    const promises = new Promises(this.#journal);
    const reruns = new Reruns(onFailure);
    const { retentionMs, endpoints } = options;
    const { signal } = this.#arrivals;
    this.#shared = {
      journal: this.#journal,
      promises,
      endpoints,
      reruns,
      late: new Late({ retentionMs, reruns, signal, random: this.#random("late") }),
      resolver: new Resolver({ journal: this.#journal, promises, onFailure }),
      recent: new RecentTokens(),
      isStopping: () => this.#arrivals.signal.aborted,
    };
    this.#actors = this.#makeActors();
    this.#idle = new Set(this.#actors);
  }

  get progress(): Progress {
    return this.#journal.progress;
  }

  start(): void {
    const { levels, trackers, listenTo, listenAs } = this.#options;
    const { signal } = this.#all;
    const journal = this.#journal;
    this.#beside.push(this.#arrive());
    for (const tracker of listenTo)
      this.#beside.push(
        listen({ journal, tracker, level: usualLevel(levels), levels, signal, owners: listenAs }),
      );
    const { recent, late } = this.#shared;
    this.#beside.push(late.run());
    const asker = { journal, recent, random: this.#random("asker"), levels, trackers };
    this.#beside.push(askNowAndThen({ ...asker, signal: this.#arrivals.signal }));
    for (const running of this.#beside) running.catch(this.#onFailure);
  }

  /** Resolves when everything in flight has its answer. */
  async stop(): Promise<void> {
    this.#arrivals.abort();
    await Promise.all(this.#acting);
    await this.#shared.reruns.stop();
  }

  /** Resolves when every promise has its verdict and the history is complete. */
  async finish(): Promise<void> {
    await this.#shared.resolver.stop();
    await this.#shared.promises.settle(PROMISES_LIMIT_MS);
    await pause(LAST_EVENTS_MS);
    this.#all.abort();
    await Promise.all(this.#beside);
    for (const actor of this.#actors) actor.close?.();
    await Promise.all(this.#clients.map((client) => client.close()));
    this.#journal.close();
  }

  async #arrive(): Promise<void> {
    const { rate } = this.#options;
    const { signal } = this.#arrivals;
    const random = this.#random("arrivals");
    while (!signal.aborted) {
      const untilNextMs = (-Math.log(1 - random.next()) * 1_000) / rate;
      await pause(untilNextMs, undefined, { signal }).catch(() => undefined);
      const kind = random.weighted(KINDS);
      const idle = [...this.#idle].filter((actor) => actor.kind === kind);
      if (idle.length > 0 && !this.#arrivals.signal.aborted) this.#act(random.pick(idle));
    }
  }

  #act(actor: Actor): void {
    this.#idle.delete(actor);
    const acting = actor
      .act()
      .catch(this.#onFailure)
      .finally(() => {
        this.#acting.delete(acting);
        this.#idle.add(actor);
      });
    this.#acting.add(acting);
  }

  #random(purpose: string): Random {
    const { seed, name } = this.#options;
    return new Random(`${String(seed)}/${name}/${purpose}`);
  }

  #makeActors(): Actor[] {
    const { name, levels, endpoints, keeps } = this.#options;
    const level = usualLevel(levels);
    const clients = TIMEOUTS.map(
      (timeouts) => new Highwater({ endpoints, level, ...timeouts, ...credential() }),
    );
    this.#clients.push(...clients);
    const actors: Actor[] = [];
    const parts = (client: string, hw: Highwater, keeps = false) => ({
      shared: this.#shared,
      client,
      hw,
      level,
      random: this.#random(`${client}/pace`),
      planner: this.#planner(client, keeps),
    });
    for (const [number, hw] of clients.entries()) {
      for (let line = 0; line < SESSIONS + LOOSE; line++) {
        const client = `${name}/sdk${String(number)}/${String(line)}`;
        actors.push(new SdkActor({ ...parts(client, hw, keeps), session: line < SESSIONS ? client : null }));
      }
    }
    const [hw] = clients;
    if (hw === undefined) throw new Error("there are no clients");
    for (let line = 0; line < INTERACTIVE; line++) {
      const client = `${name}/interactive/${String(line)}`;
      actors.push(new InteractiveActor({ ...parts(client, hw), session: client }));
    }
    for (let line = 0; line < REPLICA; line++) {
      const client = `${name}/replica/${String(line)}`;
      const writer = new SdkActor({ ...parts(client, hw), session: client });
      actors.push(new ReplicaActor({ ...parts(client, hw), session: client, writer }));
    }
    if (this.#options.endpoints.every(({ postgres }) => postgres !== undefined))
      for (const [line, kind] of WIRE.entries()) {
        const { owner } = this.#options;
        actors.push(new WireActor({ ...parts(`${name}/wire/${String(line)}`, hw), ...kind, owner }));
      }
    return actors;
  }

  #made = 0;

  #planner(client: string, keeps: boolean): Planner {
    const { ordinal, levels } = this.#options;
    const first = (ordinal * ACTORS_MAX + this.#made++) * VALUES_PER_ACTOR;
    let values = 0;
    return new Planner({
      random: this.#random(`${client}/plan`),
      levels,
      newValue: () => first + ++values,
      keeps,
    });
  }
}
