// A line of work on the PostgreSQL wire, as an application that changed only its connection string.
// Its transactions are safe and have no receipt: a commit that is answered has to survive what its
// level covers, and one that is not answered has an unknown outcome.
import { setTimeout as pause } from "node:timers/promises";
import { type Shown, type TxnId } from "@highwater/checker";
import { newTransactionId } from "@highwater/sdk";
import { type Owner } from "../parts.ts";
import { type Outcome } from "./outcomes.ts";
import { type Actor, type Shared } from "./parts.ts";
import { type Plan, type Planner } from "./plan.ts";
import { type Random } from "./random.ts";
import { shownBy, type Statement, statementsOf, type Values } from "./schema.ts";
import { failureOf, WireClient } from "./wire-client.ts";

const UNAVAILABLE_PAUSE_MS = 500;
const ROLLED_BACK = 0.06;
const MAX_WAIT_MS = 2_500;
const GIVES_UP = 0.15;
/** How a transaction is sent. */
const WAYS = { block: 50, text: 20, alone: 20, copy: 10 } as const;

const EPOCH: Statement = {
  sql: "SELECT id::text, (pg_catalog.pg_current_wal_insert_lsn() - '0/0')::text FROM highwater.current_epoch",
};

export interface WireActorOptions {
  readonly shared: Shared;
  readonly client: string;
  readonly planner: Planner;
  readonly random: Random;
  readonly level: string;
  readonly owner: Owner | undefined;
}

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
    const { random, planner } = this.#options;
    const client = await this.#connected();
    if (client === null) {
      await pause(UNAVAILABLE_PAUSE_MS * (0.5 + random.next()));
      return;
    }
    const way = random.weighted(WAYS);
    const isOne = way === "alone" || way === "copy";
    const plan = isOne ? planner.nextSingle(way) : way === "block" ? planner.next() : planner.nextWrite();
    await this.#run(client, way, plan);
    if (!client.isOpen) this.#client = null;
  }

  close(): void {
    this.#client?.destroy();
  }

  async #connected(): Promise<WireClient | null> {
    if (this.#client !== null) return this.#client;
    const { shared, level, owner } = this.#options;
    const { endpoints } = shared;
    const { postgres = "" } = endpoints[this.#at++ % endpoints.length] ?? {};
    const url = new URL(postgres);
    if (owner !== undefined) Object.assign(url, { username: owner.role, password: owner.apiKey });
    try {
      this.#client = await WireClient.connect({ url: url.href, level });
    } catch {
      // A gateway or its primary is down: the next attempt asks another gateway.
    }
    return this.#client;
  }

  async #run(client: WireClient, way: keyof typeof WAYS, plan: Plan): Promise<void> {
    const { shared, client: name, level } = this.#options;
    const { journal } = shared;
    const txn = newTransactionId();
    const { operations, readOnly } = plan;
    journal.invoked({
      client: name,
      session: name,
      txn,
      rerunOf: null,
      ack: "durable",
      level,
      readOnly,
      isolation: "serializable",
      after: null,
      operations,
      receipt: false,
    });
    client.takeWarning();
    const outcome = await this.#transact(client, way, plan, txn);
    const isEarly = client.takeWarning();
    journal.answered({
      txn,
      ...outcome,
      durableAt: outcome.outcome === "committed" && !isEarly ? level : null,
    });
    if (outcome.outcome === "unknown" || outcome.outcome === "lost") client.destroy();
  }

  #transact(client: WireClient, way: keyof typeof WAYS, plan: Plan, txn: TxnId): Promise<Outcome> {
    switch (way) {
      case "block":
        return this.#block(client, plan, txn);
      case "text": {
        const texts = statementsOf(plan.operations, txn).map(inline);
        const text = ["BEGIN", ...texts, "COMMIT"].join("; ");
        // What it reads is not recorded: the driver's results do not name their statements.
        return this.#commit(client, plan, async () => (await client.say(text)) === "COMMIT");
      }
      case "alone": {
        const [statement] = statementsOf(plan.operations, txn);
        return this.#commit(client, plan, async () => {
          await client.run(statement?.sql ?? "", statement?.params);
          return true;
        });
      }
      case "copy": {
        const rows = plan.operations.map((operation) =>
          "value" in operation ? `${String(operation.value)}\t${txn}\n` : "",
        );
        return this.#commit(client, plan, async () => {
          await client.copy("COPY chaos_set (value, txn) FROM STDIN", rows.join(""));
          return true;
        });
      }
    }
  }

  async #block(client: WireClient, plan: Plan, txn: TxnId): Promise<Outcome> {
    const { random } = this.#options;
    const results: Values[] = [];
    let position: Outcome["position"] = null;
    try {
      await client.say("BEGIN");
      const [at] = await client.run(EPOCH.sql);
      const [epoch = null, offset = null] = at ?? [];
      if (epoch !== null && offset !== null) position = { epoch, offset };
      if (random.chance(GIVES_UP)) await client.say(`SET LOCAL highwater.max_wait = ${String(MAX_WAIT_MS)}`);
      for (const { sql, params } of statementsOf(plan.operations, txn))
        results.push(await client.run(sql, params));
      if (random.chance(ROLLED_BACK)) {
        // A block that has failed: its COMMIT is answered with ROLLBACK.
        await client.run("SELECT 1 / 0").catch(() => undefined);
      }
    } catch (error) {
      // No COMMIT was sent.
      if (failureOf(error) === "failed") await client.say("ROLLBACK").catch(() => undefined);
      else client.destroy();
      return { ...NOTHING, outcome: "aborted", error: codeOf(error) };
    }
    const shown = shownBy(plan.operations, results);
    return this.#commit(client, plan, async () => (await client.say("COMMIT")) === "COMMIT", shown, position);
  }

  /** `send` resolves with false if the transaction was rolled back. */
  async #commit(
    client: WireClient,
    plan: Plan,
    send: () => Promise<boolean>,
    shown: readonly Shown[] | null = null,
    position: Outcome["position"] = null,
  ): Promise<Outcome> {
    try {
      if (!(await send())) return { ...NOTHING, outcome: "aborted", error: "rolled_back" };
      return { ...NOTHING, outcome: "committed", shown: position === null ? null : shown, position };
    } catch (error) {
      const failure = failureOf(error);
      if (failure === "failed") {
        // A text that failed inside its block leaves the block open.
        await client.say("ROLLBACK").catch(() => undefined);
      }
      // A read that was never answered has no effect that could be found.
      const outcome = failure === "failed" || plan.readOnly ? "aborted" : failure;
      return { ...NOTHING, outcome, error: codeOf(error) };
    }
  }
}

const NOTHING: Outcome = {
  outcome: "unknown",
  durableAt: null,
  position: null,
  shown: null,
  replayed: false,
  error: null,
};

function codeOf(error: unknown): string {
  return (error as { readonly code?: string }).code ?? "connection_failed";
}

/** Its values are numbers, names of keys and ids: none has a quote. */
function inline({ sql, params = [] }: Statement): string {
  return sql.replaceAll(/\$(\d+)/g, (_, number: string) => `'${String(params[Number(number) - 1])}'`);
}
