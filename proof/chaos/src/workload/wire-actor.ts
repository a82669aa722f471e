// Runs transactions on the PostgreSQL wire, like an application that changed only its connection
// string. Safe transactions without an id have no receipt: an answered commit has to survive what
// its level covers, and an unanswered one has an unknown outcome. Fast ones get a token, and those
// with an id (`highwater.id`) can be looked up.
import { setTimeout as pause } from "node:timers/promises";
import { type Shown, type TxnId } from "@highwater/checker";
import { decodeToken } from "@highwater/protocol";
import { type Highwater, newTransactionId } from "@highwater/sdk";
import { type Owner } from "../parts.ts";
import { type Outcome } from "./outcomes.ts";
import { type Actor, type Shared } from "./parts.ts";
import { type Plan, type Planner } from "./plan.ts";
import { type Random } from "./random.ts";
import { shownBy, type Statement, statementsOf } from "./schema.ts";
import { type Answer, failureOf, WireClient } from "./wire-client.ts";

const UNAVAILABLE_PAUSE_MS = 500;
const ROLLED_BACK = 0.06;
const MAX_WAIT_MS = 2_500;
const GIVES_UP = 0.15;
const OTHER_ACK = 0.15;
const NAMED = { commit: 0.6, durable: 0.3 } as const;
const READS_DURABLY = 0.4;
const PIPELINED_MAX = 3;
/** Connections end from time to time, and the next may go to the nearest gateway again. */
const CLOSED = 0.04;
const HOME = 0.6;
/**
 * How a transaction is sent. `several`: autocommitted statements that do not wait for each other.
 */
const WAYS = { block: 50, text: 15, alone: 25, copy: 10 } as const;
const PIPELINED_WAYS = { block: 60, several: 40 } as const;

type Way = keyof typeof WAYS;
type Ack = "commit" | "durable";

const EPOCH: Statement = {
  sql: "SELECT id::text, (pg_catalog.pg_current_wal_insert_lsn() - '0/0')::text FROM highwater.current_epoch",
};

export interface WireActorOptions {
  readonly shared: Shared;
  readonly client: string;
  readonly hw: Highwater;
  readonly planner: Planner;
  readonly random: Random;
  readonly level: string;
  readonly owner: Owner | undefined;
  /** The session's acknowledgement. */
  readonly ack: Ack;
  /** It sends statements without waiting for the answers to earlier ones. */
  readonly isPipelined: boolean;
}

/** One transaction, with the choices for this run. */
interface Choice {
  readonly txn: TxnId;
  readonly plan: Plan;
  readonly ack: Ack;
  /** It only reads, whatever its plan allows. */
  readonly isReadOnly: boolean;
  /** The client sets `highwater.id`. */
  readonly isNamed: boolean;
  readonly readsDurably: boolean;
  readonly givesUp: boolean;
}

type Ended = Outcome & { readonly token: string | null };

export class WireActor implements Actor {
  readonly kind = "wire";
  readonly #options: WireActorOptions;
  #client: WireClient | null = null;
  /** The gateway to connect to next. */
  #at = 0;

  constructor(options: WireActorOptions) {
    this.#options = options;
  }

  async act(): Promise<void> {
    const { random, isPipelined } = this.#options;
    const client = await this.#connected();
    if (client === null) {
      await pause(UNAVAILABLE_PAUSE_MS * (0.5 + random.next()));
      return;
    }
    if (!isPipelined) await this.#runOne(client, random.weighted(WAYS));
    else if (random.weighted(PIPELINED_WAYS) === "block") await this.#runOne(client, "block");
    else await this.#runSeveral(client);
    if (random.chance(CLOSED)) client.destroy();
    if (!client.isOpen) this.#client = null;
  }

  close(): void {
    this.#client?.destroy();
  }

  async #connected(): Promise<WireClient | null> {
    if (this.#client !== null) return this.#client;
    const { shared, level, owner, ack, isPipelined, random } = this.#options;
    const { endpoints } = shared;
    if (random.chance(HOME)) this.#at = 0;
    const { postgres = "" } = endpoints[this.#at++ % endpoints.length] ?? {};
    const url = new URL(postgres);
    if (owner !== undefined) Object.assign(url, { username: owner.role, password: owner.apiKey });
    try {
      this.#client = await WireClient.connect({ url: url.href, level, ack, isPipelined });
    } catch {
      // A gateway or its primary is down: the next attempt asks another gateway.
    }
    return this.#client;
  }

  async #runOne(client: WireClient, way: Way): Promise<void> {
    const { planner, client: name } = this.#options;
    const isOne = way === "alone" || way === "copy";
    const plan = isOne ? planner.nextSingle(way) : way === "block" ? planner.next() : planner.nextWrite();
    const choice = way === "block" ? this.#chooseBlock(plan) : this.#choose(plan);
    this.#invoked(choice, name);
    this.#answered(client, choice, await this.#transact(client, way, choice));
  }

  /** They run one after another, but none waits for the answer to the one before. */
  async #runSeveral(client: WireClient): Promise<void> {
    const { planner, random } = this.#options;
    const choices = Array.from({ length: 1 + random.below(PIPELINED_MAX) }, () =>
      this.#choose(planner.nextSingle("alone")),
    );
    for (const choice of choices) this.#invoked(choice, null);
    await Promise.all(
      choices.map(async (choice) => {
        this.#answered(client, choice, await this.#transact(client, "alone", choice));
      }),
    );
  }

  #choose(plan: Plan): Choice {
    const { ack } = this.#options;
    const txn = newTransactionId();
    const isReadOnly = readsOnly(plan);
    return { txn, plan, ack, isReadOnly, isNamed: false, readsDurably: false, givesUp: false };
  }

  #chooseBlock(plan: Plan): Choice {
    const { random, ack: usual } = this.#options;
    const ack = random.chance(OTHER_ACK) ? OTHER[usual] : usual;
    const isReadOnly = readsOnly(plan);
    return {
      txn: newTransactionId(),
      plan,
      ack,
      isReadOnly,
      isNamed: !isReadOnly && random.chance(NAMED[ack]),
      readsDurably: isReadOnly && ack === "durable" && random.chance(READS_DURABLY),
      givesUp: random.chance(GIVES_UP),
    };
  }

  #invoked({ txn, plan, ack, isReadOnly, isNamed }: Choice, session: string | null): void {
    const { shared, client, level } = this.#options;
    const { operations } = plan;
    shared.journal.invoked({
      client,
      session,
      txn,
      rerunOf: null,
      ack,
      level,
      readOnly: isReadOnly,
      isolation: "serializable",
      after: null,
      operations,
      ...(!isNamed && { receipt: false }),
    });
  }

  #answered(client: WireClient, { txn, isNamed }: Choice, { token, ...outcome }: Ended): void {
    const { shared, hw, level } = this.#options;
    const { journal, recent, promises, resolver } = shared;
    const content = token === null ? undefined : decodeToken(token);
    if (token !== null && content === undefined) throw new Error(`${token} is no token`);
    if (token !== null) journal.note({ kind: "token", txn, token, attempt: content?.attempt ?? null });
    // A position-only token names no transaction.
    const tokenOf = content === undefined || content.kind === "position" ? undefined : content.id;
    journal.answered({ txn, ...outcome, ...(tokenOf !== undefined && { tokenOf }) });
    if (token !== null) {
      recent.add(txn, token);
      promises.watch(hw.promise(token, { level }), { txn, levels: [level] });
    } else if (isNamed && (outcome.outcome === "unknown" || outcome.outcome === "committed"))
      resolver.add({ hw, txn, level });
    if (outcome.outcome === "unknown" || outcome.outcome === "lost") client.destroy();
  }

  #transact(client: WireClient, way: Way, choice: Choice): Promise<Ended> {
    const { operations } = choice.plan;
    const statements = statementsOf(operations, choice.txn);
    switch (way) {
      case "block":
        return this.#options.isPipelined ? this.#pipelinedBlock(client, choice) : this.#block(client, choice);
      case "text": {
        const text = ["BEGIN", ...statements.map(inline), "COMMIT"].join("; ");
        // Its reads are not recorded: the driver does not say which statement a result belongs to.
        return this.#commit(client, choice, () => client.say(text));
      }
      case "alone": {
        const [statement = { sql: "" }] = statements;
        const isSimple = this.#options.random.chance(0.3);
        return this.#commit(client, choice, () =>
          isSimple ? client.say(inline(statement)) : client.run(statement.sql, statement.params),
        );
      }
      case "copy": {
        const rows = operations.map((operation) =>
          "value" in operation ? `${String(operation.value)}\t${choice.txn}\n` : "",
        );
        const sql = "COPY chaos_set (value, txn) FROM STDIN";
        return this.#commit(client, choice, () => client.copy(sql, rows.join("")));
      }
    }
  }

  async #block(client: WireClient, choice: Choice): Promise<Ended> {
    const { operations } = choice.plan;
    const results: Answer[] = [];
    let position: Outcome["position"];
    try {
      await client.say("BEGIN");
      position = positionIn(await client.run(EPOCH.sql));
      for (const text of this.#settings(choice)) await client.say(text);
      for (const { sql, params } of statementsOf(operations, choice.txn))
        results.push(await client.run(sql, params));
      if (this.#options.random.chance(ROLLED_BACK)) {
        // Makes the block fail, so that its COMMIT is answered with ROLLBACK.
        await client.run("SELECT 1 / 0").catch(() => undefined);
      }
    } catch (error) {
      // No COMMIT was sent, so it has no effect.
      if (failureOf(error) === "failed") await client.say("ROLLBACK").catch(() => undefined);
      else client.destroy();
      return { ...NOTHING, outcome: "aborted", error: codeOf(error) };
    }
    const ended = await this.#commit(client, choice, () => client.say("COMMIT"));
    return withReads(ended, position, shownOf(choice, results));
  }

  /** Sends all of it at once, even the COMMIT after a statement that may fail. */
  async #pipelinedBlock(client: WireClient, choice: Choice): Promise<Ended> {
    const settings = this.#settings(choice);
    const fails = this.#options.random.chance(ROLLED_BACK);
    const answering = Promise.allSettled([
      client.say("BEGIN"),
      ...settings.map((text) => client.say(text)),
      client.run(EPOCH.sql),
      ...statementsOf(choice.plan.operations, choice.txn).map(({ sql, params }) => client.run(sql, params)),
      ...(fails ? [client.run("SELECT 1 / 0")] : []),
    ]);
    const ended = await this.#commit(client, choice, () => client.say("COMMIT"));
    if (ended.outcome !== "committed") return ended;
    const answers = (await answering).map((result) => {
      if (result.status === "fulfilled") return result.value;
      throw new Error("a block committed in which a statement failed", { cause: result.reason });
    });
    const [position, ...results] = answers.slice(1 + settings.length);
    return withReads(ended, position === undefined ? null : positionIn(position), shownOf(choice, results));
  }

  #settings({ txn, ack, isNamed, readsDurably, givesUp }: Choice): string[] {
    return [
      ...(ack === this.#options.ack ? [] : [`SET LOCAL highwater.ack = ${ack}`]),
      ...(isNamed ? [`SET LOCAL highwater.id = '${txn}'`] : []),
      ...(readsDurably ? ["SET LOCAL highwater.read_ack = durable"] : []),
      ...(givesUp ? [`SET LOCAL highwater.max_wait = ${String(MAX_WAIT_MS)}`] : []),
    ];
  }

  async #commit(client: WireClient, choice: Choice, send: () => Promise<Answer>): Promise<Ended> {
    const { level } = this.#options;
    const { isReadOnly, ack, readsDurably } = choice;
    try {
      const { tag, token, isEarly } = await send();
      const content = token === null ? undefined : decodeToken(token);
      if (content?.kind === "position" && !isEarly)
        throw new Error(`a held answer has a position-only token: ${token ?? ""}`);
      if (tag === "ROLLBACK") return { ...NOTHING, outcome: "aborted", token, error: "rolled_back" };
      // An answer at the commit point has a token; any other was held until the commit was durable.
      // Reads alone are held only if the session asks for it.
      const isHeld = isReadOnly ? readsDurably : ack === "durable" || token === null;
      return {
        ...NOTHING,
        outcome: "committed",
        token,
        durableAt: isHeld && !isEarly ? level : null,
        position: content === undefined ? null : { epoch: content.epoch, offset: String(content.offset) },
      };
    } catch (error) {
      const failure = failureOf(error);
      if (failure === "failed" && !this.#options.isPipelined) {
        // A text that failed inside its block leaves the block open.
        await client.say("ROLLBACK").catch(() => undefined);
      }
      // An unanswered read leaves no effect to find.
      const outcome = failure === "failed" || isReadOnly ? "aborted" : failure;
      return { ...NOTHING, outcome, error: codeOf(error) };
    }
  }
}

function readsOnly({ operations }: Plan): boolean {
  return operations.every(({ f }) => f === "read" || f === "sum");
}

const OTHER = { commit: "durable", durable: "commit" } as const;

const NOTHING: Ended = {
  outcome: "unknown",
  durableAt: null,
  position: null,
  shown: null,
  replayed: false,
  error: null,
  token: null,
};

function positionIn({ rows }: Answer): Outcome["position"] {
  const [epoch = null, offset = null] = rows[0] ?? [];
  return epoch === null || offset === null ? null : { epoch, offset };
}

function shownOf({ plan }: Choice, results: readonly Answer[]): readonly Shown[] {
  return shownBy(
    plan.operations,
    results.map(({ rows }) => rows),
  );
}

/** It read in the epoch that it saw itself. */
function withReads(ended: Ended, position: Outcome["position"], shown: readonly Shown[]): Ended {
  if (ended.outcome !== "committed" || position === null) return ended;
  return { ...ended, shown, position: ended.position ?? position };
}

function codeOf(error: unknown): string {
  return (error as { readonly code?: string }).code ?? "connection_failed";
}

/** The values are numbers, names of keys and ids, so none contains a quote. */
function inline({ sql, params = [] }: Statement): string {
  return sql.replaceAll(/\$(\d+)/g, (_, number: string) => `'${String(params[Number(number) - 1])}'`);
}
