// Ends sessions that take so many locks of a server that others get none. When that has happened,
// the server admits no session and gives no lock on a catalog of all databases, and to end a
// session it reads two of those. So this connection is there before, in a transaction that has
// locked them.
import type pg from "pg";
import { type Clock } from "@highwater/runtime";
import { type LockFlood } from "../port.ts";
import { type Channel } from "./channel.ts";
import { END_LOCK_FLOODS, FORGET_SESSIONS, KEEP_ROLES_LOCKED } from "./sql.ts";

/** Each transaction lasts so long at most: the server's oldest one is what operators watch. */
const RENEW_MS = 30_000;

export class Warden {
  readonly #channel: Channel;
  readonly #clock: Clock;
  #holding: { readonly client: pg.Client; readonly sinceMs: number } | null = null;

  constructor(channel: Channel, clock: Clock) {
    this.#channel = channel;
    this.#clock = clock;
  }

  endFloods(): Promise<readonly LockFlood[]> {
    return this.#channel.run(async (client) => {
      if (this.#holding?.client !== client) await this.#hold(client);
      const [{ rows }] = await Promise.all([
        client.query<{ role: string; locks: number }>({ name: "warden", text: END_LOCK_FLOODS }),
        // The next look sees the sessions anew. A simple query also drops the portal of the one
        // before it, whose snapshot would hold up what a replica replays, and its promotion.
        client.query(FORGET_SESSIONS),
      ]);
      // While there is a flood, the locks might not be had again.
      if (rows.length === 0 && this.#clock.monotonicMs() - (this.#holding?.sinceMs ?? 0) >= RENEW_MS)
        await this.#hold(client);
      return rows.map(({ role, locks }) => ({ role, locks }));
    });
  }

  async #hold(client: pg.Client): Promise<void> {
    await client.query(KEEP_ROLES_LOCKED);
    this.#holding = { client, sinceMs: this.#clock.monotonicMs() };
  }

  close(): void {
    this.#channel.close();
  }
}
