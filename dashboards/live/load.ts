// What runs on the system while its dashboards are looked at: something of everything that there is
// a panel for. Errors are part of it (a failover comes in between), so they are counted and not
// thrown.
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { type System } from "@highwater/lab-system";
import { newId, post, send, type TransactionReply, verdicts } from "@highwater/lab-system/testing";

const WORKERS_PER_REGION = 3;
const PAUSE_MS = 30;
const LOST_PAUSE_MS = 500;
const ISOLATIONS = ["serializable", "repeatable read", "read committed"] as const;
const ACCOUNTS = 50;

/** Of the gateways: so many sessions, and so many transactions that wait for one. */
const POOL_SIZE = 4;
const POOL_QUEUE = 16;
const ACTIVE_MAX = POOL_SIZE + POOL_QUEUE;

/** Small enough for the load to meet its limits. */
export const LOAD_ENVIRONMENT = {
  GATEWAY_POOL_SIZE: String(POOL_SIZE),
  GATEWAY_POOL_QUEUE: String(POOL_QUEUE),
} as const;

const WIRE_WRITE = "UPDATE account SET balance = balance - 1 WHERE id = 2";
/** Answered when durable, at the commit point, when durable for want of a receipt, and early. */
const WIRE_TURNS: readonly (readonly string[])[] = [
  ["RESET highwater.ack", WIRE_WRITE],
  ["SET highwater.ack = 'commit'", "BEGIN", WIRE_WRITE, "COMMIT"],
  ["SET highwater.ack = 'commit'", `${WIRE_WRITE}; ${WIRE_WRITE}`],
  ["RESET highwater.ack", "SET highwater.max_wait = '1ms'", WIRE_WRITE, "RESET highwater.max_wait"],
];

export class Load {
  readonly #system: System;
  readonly #stopping = new AbortController();
  readonly #workers: Promise<void>[] = [];
  readonly #tokens = new Map<string, string>();
  answered = 0;
  failed = 0;

  private constructor(system: System) {
    this.#system = system;
  }

  static async start(system: System): Promise<Load> {
    const load = new Load(system);
    const [first = ""] = system.regions;
    const statements = [
      { sql: "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)" },
      { sql: `INSERT INTO account SELECT n, 100 FROM generate_series(1, ${String(ACCOUNTS)}) AS n` },
    ];
    const answer = await send(system.gateway(first).url, statements, { ack: "durable", level: "global" });
    if (answer.status !== 200) throw new Error(`the load's table: ${JSON.stringify(answer.body)}`);
    for (const region of system.regions) {
      for (let worker = 0; worker < WORKERS_PER_REGION; worker++)
        load.#workers.push(load.#work(region, worker));
      load.#workers.push(load.#listen(region), load.#connect(region));
    }
    return load;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#workers);
  }

  get #isOver(): boolean {
    return this.#stopping.signal.aborted;
  }

  async #work(region: string, worker: number): Promise<void> {
    for (let turn = worker; !this.#isOver; turn++) {
      try {
        const answer = await this.#turn(region, turn);
        if (answer === undefined || answer.status < 300) this.answered++;
        else this.failed++;
        await pause(PAUSE_MS);
      } catch {
        this.failed++;
        // Its gateway is gone.
        await pause(LOST_PAUSE_MS);
      }
    }
  }

  /**
   * One in ten reads, verdicts, interactive ones; the rest are writes, and a fifth of these is
   * safe.
   */
  async #turn(region: string, turn: number): Promise<TransactionReply | undefined> {
    const gateway = this.#system.gateway(region).url;
    const isolation = ISOLATIONS[turn % ISOLATIONS.length] ?? "serializable";
    const token = this.#tokens.get(region);
    const account = 1 + ((turn * 7) % ACCOUNTS);
    switch (turn % 10) {
      case 0:
        return send(gateway, [read(account)], {
          readOnly: true,
          ...(token !== undefined && { after: token }),
        });
      case 1:
        return send(gateway, [read(account)], { readOnly: true, isolation });
      case 2:
        return this.#interactive(gateway, account);
      case 3:
        if (token !== undefined) await verdicts(this.#system.tracker(region).url, [token], { waitMs: 0 });
        return undefined;
      case 4:
        if (turn % 40 === 4) return this.#burst(gateway, account);
        return this.#write(region, gateway, account, { ack: "durable", isolation });
      case 5:
        return this.#write(region, gateway, account, { ack: "durable", level: "global", isolation });
      case 6:
        // The same few rows for everybody: conflicts.
        return this.#write(region, gateway, 1, { isolation: "serializable", maxDelayMs: 60_000 });
      default:
        return this.#write(region, gateway, account, { isolation });
    }
  }

  async #write(
    region: string,
    gateway: string,
    account: number,
    options: Parameters<typeof send>[2],
  ): Promise<TransactionReply> {
    const answer = await send(gateway, [write(account)], options);
    if (answer.status === 200) this.#tokens.set(region, answer.body.token);
    return answer;
  }

  async #interactive(gateway: string, account: number): Promise<undefined> {
    const id = newId();
    const begun = await post(`${gateway}/v1/transactions/begin`, { id, statements: [read(account)] });
    const session = begun.headers.get("highwater-session") ?? "";
    const body = { seq: 1, statements: [write(account)] };
    const ended = await post(`${gateway}/v1/transactions/${id}/commit`, body, {
      "highwater-session": session,
    });
    if (ended.status >= 300) throw new Error(`commit: ${String(ended.status)}`);
    return undefined;
  }

  /** More at once than a gateway takes: some are refused. */
  async #burst(gateway: string, account: number): Promise<undefined> {
    const reads = Array.from({ length: ACTIVE_MAX * 2 }, () =>
      send(gateway, [read(account)], { readOnly: true }),
    );
    await Promise.all(reads);
    return undefined;
  }

  /** A client of PostgreSQL, which connects again when its gateway goes. */
  async #connect(region: string): Promise<void> {
    while (!this.#isOver) {
      const client = new pg.Client({ connectionString: this.#system.pgUrl(region) });
      client.on("error", () => undefined);
      try {
        await client.connect();
        for (let turn = 0; !this.#isOver; turn++) {
          for (const sql of WIRE_TURNS[turn % WIRE_TURNS.length] ?? []) await client.query(sql);
          this.answered++;
          await pause(PAUSE_MS);
        }
      } catch {
        this.failed++;
        await pause(LOST_PAUSE_MS);
      } finally {
        await client.end().catch(() => undefined);
      }
    }
  }

  /** A stream of marks and one of events, opened again when their tracker goes. */
  async #listen(region: string): Promise<void> {
    const open = async (path: string): Promise<void> => {
      while (!this.#isOver) {
        try {
          const signal = this.#stopping.signal;
          const answer = await fetch(`${this.#system.tracker(region).url}${path}`, { signal });
          if (answer.body !== null) for await (const _ of answer.body);
        } catch {
          if (!this.#isOver) await pause(LOST_PAUSE_MS);
        }
      }
    };
    await Promise.all([open("/v1/durability/stream"), open("/v1/durability/events")]);
  }
}

const read = (account: number) => ({ sql: "SELECT balance FROM account WHERE id = $1", params: [account] });
const write = (account: number) => ({
  sql: "UPDATE account SET balance = balance - 1 WHERE id = $1",
  params: [account],
});
