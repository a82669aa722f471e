// One run of a scenario by one language (or by two that pass tokens to each other): its servers,
// its names, and the calls that go on in the background. Lanes of a scenario run in step, so that
// they can share the faults of one real system.
import { NO_ID } from "@highwater/protocol";
import { token } from "../fake/build.ts";
import { FakeServer } from "../fake/server.ts";
import { type DriverReply, type Driver } from "./driver.ts";
import { isFakeVerb, isSdkVerb, type Scenario, type Step } from "./format.ts";
import { differences } from "./match.ts";

type Json = Readonly<Record<string, unknown>>;

const SEEN_LIMIT_MS = 20_000;
/** Asks a driver for a call that its caller can end. */
const CANCELLABLE = { cancellable: true };
let lanes = 0;

interface Background {
  readonly driver: Driver;
  readonly call: number;
  readonly answer: Promise<DriverReply>;
}

export class Lane {
  readonly name: string;
  readonly scope: string;
  readonly #scenario: Scenario;
  /** By party. */
  readonly #drivers: ReadonlyMap<string, Driver>;
  readonly #fakes: FakeServer[] = [];
  /**
   * What each step was answered, without what differs from run to run: all languages must have the
   * same.
   */
  readonly answers: string[] = [];
  readonly #background = new Map<string, Background>();
  readonly #owners = new Map<string, Driver>();
  readonly #saved: Map<string, string>;
  #endpoints: readonly Json[] = [];
  /** Where an application connects to the primary of the real system. */
  #database: string | undefined;
  #ended = false;

  constructor(scenario: Scenario, drivers: ReadonlyMap<string, Driver>) {
    this.#scenario = scenario;
    this.#drivers = drivers;
    this.scope = `lane_${String((lanes += 1))}_${String(process.pid)}`;
    this.name = [...drivers]
      .map(([party, { language }]) => (party === "" ? language : `${party}: ${language}`))
      .join(", ");
    this.#saved = new Map([["table", this.scope]]);
  }

  /**
   * Starts its servers, unless there is the real system, and gives every party a client.
   */
  async begin(site?: { readonly endpoints: readonly Json[]; readonly database: string }): Promise<void> {
    this.#database = site?.database;
    const endpoints = site?.endpoints;
    if (endpoints === undefined)
      for (const script of this.#scenario.servers ?? [{}]) this.#fakes.push(await FakeServer.start(script));
    // A scenario without faults gives its client one region. A client that knows others takes a
    // busy machine's slowness for a failure, sends again, and finds that its first copy has
    // committed.
    const isCalm = !this.#scenario.steps.some(({ verb }) => verb === "fault");
    this.#endpoints =
      (isCalm ? endpoints?.slice(0, 1) : endpoints) ??
      this.#fakes.map(({ url }) => ({ gateway: url, tracker: url }));
    for (const driver of this.#drivers.values()) await this.#client(driver, this.#scenario.client ?? {});
  }

  async end(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    for (const driver of this.#drivers.values())
      if (!driver.isBroken) await driver.run(this.scope, "end").catch(() => undefined);
    await Promise.all(this.#fakes.map((fake) => fake[Symbol.asyncDispose]()));
    const invalid = this.#fakes.flatMap(({ seen }) => seen.invalid);
    if (invalid.length > 0) throw new Error(`requests that the service would refuse: ${invalid.join("; ")}`);
  }

  /** Rejects with what is not as the scenario says. */
  async run(step: Step): Promise<void> {
    const body = this.#render(step.body) as Json;
    if (isFakeVerb(step.verb)) return this.#sendToFake(step, body);
    if (step.verb === "join" || step.verb === "cancel") {
      const background = this.#background.get(String(body["name"]));
      if (background === undefined) throw new Error(`nothing goes on that is called ${String(body["name"])}`);
      if (step.verb === "cancel") await background.driver.cancel(this.scope, background.call);
      else this.#compare(step, await background.answer);
      return;
    }
    if (!isSdkVerb(step.verb)) throw new Error(`${step.verb} is not a verb of a lane`);
    const driver = this.#party(step.by);
    if (body["repeat"] !== undefined) {
      const { repeat, ...each } = step.body;
      for (let run = 0; run < Number(repeat); run += 1) await this.run({ ...step, body: each });
      return;
    }
    if (step.verb === "client") return this.#client(driver, body);
    const given = { ...(await this.#resolve(step.verb, body)), ...(this.#isCancelled(step) && CANCELLABLE) };
    const begun = driver.start(this.scope, step.verb, given);
    const made = (body["as"] ?? (step.verb === "commit" ? body["tx"] : undefined)) as string | undefined;
    if (made !== undefined) this.#owners.set(made, driver);
    if (step.background !== undefined) {
      this.#background.set(step.background, { driver, ...begun });
      return;
    }
    const answer = await begun.answer;
    if ((step.verb === "saveSession" || step.verb === "saveId") && "ok" in answer)
      this.#saved.set(String(body["as"]), (answer.ok as { text: string }).text);
    this.#compare(step, answer);
  }

  /** As `truth` and faults see them. */
  render(value: unknown): unknown {
    return this.#render(value);
  }

  #isCancelled({ background }: Step): boolean {
    return this.#scenario.steps.some(({ verb, body }) => verb === "cancel" && body["name"] === background);
  }

  #party(name: string | undefined): Driver {
    const found = name === undefined ? [...this.#drivers.values()][0] : this.#drivers.get(name);
    if (found === undefined) throw new Error(`there is no party ${name ?? ""}`);
    return found;
  }

  async #client(driver: Driver, { server, ...options }: Json): Promise<void> {
    const isFake = this.#fakes.length > 0;
    const defaults = isFake
      ? // Long: what the machine is slow at must not look like a fault of the wire.
        { requestTimeoutMs: 20_000, totalTimeoutMs: 45_000, quick: true }
      : { requestTimeoutMs: 30_000, totalTimeoutMs: 60_000 };
    const answer = await driver.run(this.scope, "client", {
      ...defaults,
      ...options,
      endpoints: server === undefined ? this.#endpoints : [this.#endpoints[Number(server)]],
    });
    if ("error" in answer) throw new Error(`no client: ${JSON.stringify(answer.error)}`);
  }

  #compare(step: Step, answer: DriverReply): void {
    // What is known already is a matter of time.
    if (step.verb !== "promise") this.answers.push(`${step.verb} ${JSON.stringify(answer, timeless)}`);
    const what = `${step.verb} ${JSON.stringify(step.body)}`;
    if (step.error !== undefined) {
      if ("ok" in answer)
        throw new Error(
          `${what} succeeded with ${JSON.stringify(answer.ok)}, not ${JSON.stringify(step.error)}`,
        );
      report(what, differences(step.error, answer.error), answer.error);
    } else if ("error" in answer) throw new Error(`${what} failed with ${JSON.stringify(answer.error)}`);
    else if (step.expect !== undefined) report(what, differences(step.expect, answer.ok), answer.ok);
  }

  /** Tokens as texts, wherever a driver gets them. */
  async #resolve(verb: string, body: Json): Promise<Json> {
    if (verb === "durableAll") {
      const { epoch, firstOffset, count, ...rest } = body;
      const tokens = Array.from({ length: Number(count) }, (_, i) =>
        token(Number(epoch), Number(firstOffset) + i),
      );
      return { ...rest, tokens };
    }
    const resolved: Record<string, unknown> = { ...body };
    for (const field of ["token", "after"])
      if (resolved[field] !== undefined) resolved[field] = await this.#token(resolved[field]);
    if (Array.isArray(body["tokens"]))
      resolved["tokens"] = await Promise.all(body["tokens"].map((each) => this.#token(each)));
    if (verb === "adapters" && this.#database !== undefined) resolved["database"] = this.#database;
    return resolved;
  }

  async #token(given: unknown): Promise<unknown> {
    if (typeof given !== "object" || given === null) return given;
    if ("epoch" in given && "offset" in given) {
      const hasId = !("hasId" in given) || given.hasId === true;
      return token(Number(given.epoch), Number(given.offset), hasId ? undefined : NO_ID);
    }
    const { of } = given as { of: string };
    const owner = this.#owners.get(of);
    if (owner === undefined) throw new Error(`nothing is called ${of}`);
    const answer = await owner.run(this.scope, "token", { of });
    if ("error" in answer) throw new Error(JSON.stringify(answer.error));
    return (answer.ok as { token: string }).token;
  }

  async #sendToFake(step: Step, given: Json): Promise<void> {
    const { server = 0, ...body } = given;
    const fake = this.#fakes[Number(server)];
    if (fake === undefined) throw new Error(`there is no server ${String(server)}`);
    switch (step.verb) {
      case "script":
        fake.follow(body);
        break;
      case "mark":
        fake.mark(body);
        break;
      case "epochs":
        fake.epochs(body["epochs"] as Json[]);
        break;
      case "blind":
        fake.blind(body["blind"] === true);
        break;
      case "rawEvents":
        fake.rawEvents(String(body["text"]));
        break;
      case "cutStreams":
        fake.cutStreams();
        break;
      case "seen":
        report("seen", differences(body, fake.seen), fake.seen);
        break;
      default: {
        const limit = AbortSignal.timeout(SEEN_LIMIT_MS);
        await fake
          .until((seen) => differences(body, seen).length === 0, limit)
          .catch(() => {
            report("seen in time", differences(body, fake.seen), fake.seen);
          });
      }
    }
  }

  /**
   * `{table}` in a text is a name of this lane's own; `$name` as a whole text is what was saved
   * under it.
   */
  #render(value: unknown): unknown {
    if (typeof value === "string") {
      const saved = value.startsWith("$") ? this.#saved.get(value.slice(1)) : undefined;
      return saved ?? value.replaceAll("{table}", this.scope);
    }
    if (Array.isArray(value)) return value.map((each) => this.#render(each));
    if (typeof value === "object" && value !== null)
      return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, this.#render(each)]));
    return value;
  }
}

/** Fields that no two runs share, and texts for people, which are each language's own. */
const OWN = new Set(["id", "transactionId", "token", "text", "message", "retryAfterMs", "runs", "ids"]);

function timeless(key: string, value: unknown): unknown {
  if (OWN.has(key) || value === null) return undefined;
  if (typeof value !== "object" || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value as Json).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function report(what: string, found: readonly string[], actual: unknown): void {
  if (found.length > 0) throw new Error(`${what}: ${found.join("; ")}; all of it: ${JSON.stringify(actual)}`);
}
