// One connection for one purpose, opened at the first call. Calls take turns. A call that fails or
// exceeds its limit ends the connection.
import type pg from "pg";
import { type Clock } from "@highwater/runtime";
import { PostgresClient } from "./client.ts";

export interface ChannelOptions {
  readonly url: string;
  readonly name: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly connectTimeoutMs: number;
  readonly callTimeoutMs: number;
  readonly clock: Clock;
  /** Default: one that refuses other stores' servers. */
  readonly Client?: typeof PostgresClient;
}

export class Channel {
  readonly #options: ChannelOptions;
  #client: Promise<pg.Client> | null = null;
  #tail: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(options: ChannelOptions) {
    this.#options = options;
  }

  /**
   * Runs `work` when its turn comes. Rejects after the call's limit, which excludes the wait for
   * the turn.
   */
  async run<T>(work: (client: pg.Client) => Promise<T>, timeoutMs = this.#options.callTimeoutMs): Promise<T> {
    const turn = this.#tail.then(() => this.#runNow(work, timeoutMs));
    this.#tail = turn.catch(() => undefined);
    return turn;
  }

  async #runNow<T>(work: (client: pg.Client) => Promise<T>, timeoutMs: number): Promise<T> {
    if (this.#closed) throw new Error(`channel ${this.#options.name} is closed`);
    this.#client ??= this.#open();
    const opening = this.#client;
    let client: pg.Client | null = null;
    let cancel: () => void = () => undefined;
    try {
      client = await opening;
      const limit = new Promise<never>((_, reject) => {
        cancel = this.#options.clock.after(timeoutMs, () => {
          reject(new Error(`${this.#options.name}: no answer within ${String(timeoutMs)} ms`));
        });
      });
      return await Promise.race([work(client), limit]);
    } catch (cause) {
      // The connection may be in any state: a fresh one costs less than a wrong answer.
      if (this.#client === opening) this.#client = null;
      if (client !== null) destroy(client);
      throw cause;
    } finally {
      cancel();
    }
  }

  async #open(): Promise<pg.Client> {
    const { url, name, settings, connectTimeoutMs, Client = PostgresClient } = this.#options;
    const client = new Client({
      connectionString: url,
      application_name: name,
      options: startupOptions(settings),
      connectionTimeoutMillis: connectTimeoutMs,
      keepAlive: true,
      // Calls that do not wait for each other share a round trip, which is the cost of a probe
      // across regions.
      pipeline: true,
    });
    client.on("error", () => {
      this.drop(client);
    });
    client.on("end", () => {
      this.drop(client);
    });
    await client.connect();
    return client;
  }

  drop(client: pg.Client): void {
    const current = this.#client;
    if (current === null) return;
    void current.then(
      (open) => {
        if (open === client && this.#client === current) this.#client = null;
      },
      () => {
        if (this.#client === current) this.#client = null;
      },
    );
  }

  /** Ends the connection; the next call opens another. */
  reset(): void {
    const current = this.#client;
    this.#client = null;
    if (current !== null) void current.then(destroy, () => undefined);
  }

  close(): void {
    this.#closed = true;
    this.reset();
  }
}

/** Returns settings as a connection's startup parameter. The caller escapes blanks in values. */
export function startupOptions(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([key, value]) => `-c ${key}=${value}`)
    .join(" ");
}

/** Destroys the socket: an orderly end would wait for a server that may be gone. */
export function destroy(client: pg.ClientBase): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } };
  connection.stream.destroy();
}

/**
 * No call pauses this long between two statements of a transaction, unless its process is gone or
 * stopped.
 */
const IDLE_IN_TRANSACTION_MS = 3_000;

/**
 * Returns the settings that override those of the role and the database. The server gives up when
 * the client does, so that no orphan waits on. It also ends a transaction whose process has died,
 * was stopped or is cut off, so that its locks do not last.
 */
export function sessionSettings(limitMs: number): Record<string, string> {
  return {
    idle_in_transaction_session_timeout: String(IDLE_IN_TRANSACTION_MS),
    tcp_user_timeout: String(limitMs),
    search_path: "pg_catalog",
    synchronous_commit: "local",
    default_transaction_isolation: "read\\ committed",
    default_transaction_read_only: "off",
    lock_timeout: "0",
    statement_timeout: String(limitMs),
  };
}

/** Returns the name of a session; a server keeps its first 63 bytes. */
export function applicationName(helper: string, purpose?: string): string {
  return (purpose === undefined ? `highwater:${helper}` : `highwater:${helper}:${purpose}`).slice(0, 63);
}
