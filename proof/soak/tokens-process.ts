// The load of the other two scenarios: bare commits at a given rate, whether or not the service
// keeps up. It keeps their tokens, and from time to time follows one commit's durability through
// each tracker that does not restart.
import { Highwater } from "@highwater/sdk";
import { newId } from "../../loadtests/gateway/http-client.ts";
import { HttpConnection } from "../../loadtests/gateway/http-connection.ts";
import { quantile } from "../../loadtests/rounds/figures.ts";
import { serveOrders } from "../../loadtests/tracker/helper.ts";
import { Lender, pace } from "../../loadtests/tracker/pace.ts";
import { LEVEL, ROWS } from "./table.ts";

export interface Opening {
  readonly gateway: string;
  /** The trackers through which it follows durability; empty where that is not measured. */
  readonly trackers: readonly string[];
  readonly connections: number;
  /** SQL before the update, to give the database the work of a real transaction. */
  readonly before: string | null;
}

export interface Volley {
  readonly offered: number;
  /** Not offered, because too many were waiting for a connection. */
  readonly heldBack: number;
  readonly elapsedMs: number;
  readonly tokens: readonly string[];
  /** Answers with status 503 and a time to retry, by error code. */
  readonly refused: Readonly<Record<string, number>>;
  /** All other answers, by kind. */
  readonly other: Readonly<Record<string, number>>;
  readonly commitMs: { readonly p50: number; readonly p99: number };
  /** From the request to the answer, for refused requests. */
  readonly refusedMs: { readonly p50: number; readonly p99: number };
  /** By tracker: from the answer to durability, in the order of the answers. */
  readonly durable: readonly (readonly { readonly atMs: number; readonly tookMs: number }[])[];
}

const FOLLOW_EVERY = 25;
/** Waiting or running. More would only fill memory. */
const MAX_UNDER_WAY = 20_000;
const DURABLE_LIMIT_MS = 60_000;

let connections: HttpConnection[] = [];
let followers: readonly Highwater[] = [];
let before: string | null = null;

interface Answer {
  readonly token?: string;
  readonly code?: string;
  readonly retryAfterMs?: number;
}

class Shots {
  readonly tokens: string[] = [];
  readonly refused: Record<string, number> = {};
  readonly other: Record<string, number> = {};
  readonly durable = followers.map((): { atMs: number; tookMs: number }[] => []);
  readonly #commitMs: number[] = [];
  readonly #refusedMs: number[] = [];
  readonly #startedMs = performance.now();
  readonly #lender = new Lender(connections);
  readonly #underWay = new Set<Promise<void>>();
  #offered = 0;
  #heldBack = 0;

  begin(dueMs: number): void {
    if (this.#underWay.size >= MAX_UNDER_WAY) {
      this.#heldBack++;
      return;
    }
    this.#offered++;
    const work = this.#one(dueMs).finally(() => this.#underWay.delete(work));
    this.#underWay.add(work);
  }

  async end(): Promise<Omit<Volley, "elapsedMs">> {
    await Promise.all(this.#underWay);
    const { tokens, refused, other, durable } = this;
    return {
      tokens,
      refused,
      other,
      durable,
      offered: this.#offered,
      heldBack: this.#heldBack,
      commitMs: spread(this.#commitMs),
      refusedMs: spread(this.#refusedMs),
    };
  }

  async #one(dueMs: number): Promise<void> {
    const row = 1 + Math.floor(ROWS * Math.random());
    const statements = [
      ...(before === null ? [] : [{ sql: before }]),
      { sql: "UPDATE soak SET n = n + 1 WHERE id = $1", params: [row] },
    ];
    try {
      const body = JSON.stringify({ id: newId(), isolation: "read committed", statements });
      const sent = await this.#lender.use(async (connection) => {
        const sentMs = performance.now();
        return { sentMs, ...(await connection.post("/v1/transactions", body)) };
      });
      const { token, code, retryAfterMs } = JSON.parse(sent.text) as Answer;
      if (sent.status === 200 && token !== undefined) {
        this.#commitMs.push(performance.now() - dueMs);
        await this.#follow(token);
      } else if (sent.status === 503 && code !== undefined && retryAfterMs !== undefined) {
        this.refused[code] = (this.refused[code] ?? 0) + 1;
        this.#refusedMs.push(performance.now() - sent.sentMs);
      } else this.#note(`${String(sent.status)} ${code ?? ""}`);
    } catch (cause) {
      this.#note(cause instanceof Error ? cause.message : String(cause));
    }
  }

  async #follow(token: string): Promise<void> {
    const at = this.tokens.push(token) - 1;
    if (at % FOLLOW_EVERY !== 0) return;
    const answeredMs = performance.now();
    const followed = followers.map(async (follower, which) => {
      await follower.promise(token).durable({ level: LEVEL, timeoutMs: DURABLE_LIMIT_MS });
      const atMs = answeredMs - this.#startedMs;
      this.durable[which]?.push({ atMs, tookMs: performance.now() - answeredMs });
    });
    await Promise.all(followed);
  }

  #note(what: string): void {
    this.other[what] = (this.other[what] ?? 0) + 1;
  }
}

function spread(times: number[]): { p50: number; p99: number } {
  times.sort((a, b) => a - b);
  return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
}

const orders = {
  open: async (opening: Opening): Promise<void> => {
    const { gateway, trackers } = opening;
    before = opening.before;
    followers = trackers.map((tracker) => new Highwater({ endpoints: [{ gateway, tracker }] }));
    for (let n = 0; n < opening.connections; n++) connections.push(await HttpConnection.open(gateway));
  },
  run: async (load: { rate: number; durationMs: number }): Promise<Volley> => {
    const shots = new Shots();
    const startedMs = performance.now();
    await pace(load, (dueMs) => {
      shots.begin(dueMs);
    });
    const elapsedMs = performance.now() - startedMs;
    return { elapsedMs, ...(await shots.end()) };
  },
  close: async (): Promise<void> => {
    for (const connection of connections) connection.close();
    connections = [];
    await Promise.all(followers.map((follower) => follower.close()));
    followers = [];
  },
};
export type TokenOrders = typeof orders;

serveOrders(orders);
