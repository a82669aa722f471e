// The marks of erasures in PostgreSQL, and the entries that contents were read. Opens one
// connection to each node when it is needed.
import { type Act } from "../audit.ts";
import { type ContentsErasure, type ContentsStore, type ReadContents } from "../contents.ts";
import { actingAs } from "./audit.ts";
import { Channel, sessionSettings } from "./channel.ts";
import { type PostgresKeysOptions } from "./keys.ts";

/** $1 id, $2 owner, $3 attempt. */
const READ = `SELECT highwater.audit(NULL, 'contents.read', $1, NULL, jsonb_build_object('owner', $2::text, 'attempt', $3::text))`;

/** $1 owner, $2 milliseconds since 1970. The later mark stands. */
const ERASE = `INSERT INTO highwater.contents_erasure AS e (owner, through_ms) VALUES ($1::numeric, $2)
ON CONFLICT (owner) DO UPDATE SET through_ms = greatest(e.through_ms, excluded.through_ms), erased_at = clock_timestamp()`;

const ERASURES = "SELECT owner::text, through_ms::text FROM highwater.contents_erasure";

export class PostgresContents implements ContentsStore {
  readonly #channels: ReadonlyMap<string, Channel>;

  constructor({ nodes, clock, helper, connectTimeoutMs, callTimeoutMs }: PostgresKeysOptions) {
    const name = `highwater:${helper}:contents`.slice(0, 63);
    const settings = sessionSettings(callTimeoutMs);
    this.#channels = new Map(
      nodes.map(({ id, url }) => [
        id,
        new Channel({ url, name, settings, connectTimeoutMs, callTimeoutMs, clock }),
      ]),
    );
  }

  #channelOf(node: string): Channel {
    const channel = this.#channels.get(node);
    if (channel === undefined) throw new Error(`node ${node} is not configured`);
    return channel;
  }

  async recordRead(node: string, { owner, id, attempt }: ReadContents, act: Act): Promise<void> {
    await this.#channelOf(node).run((client) =>
      actingAs(client, act, () => client.query(READ, [id, String(owner), attempt])),
    );
  }

  async erase(node: string, { owner, throughMs }: ContentsErasure, act: Act): Promise<void> {
    await this.#channelOf(node).run((client) =>
      actingAs(client, act, () => client.query(ERASE, [String(owner), throughMs])),
    );
  }

  async readErasures(node: string): Promise<readonly ContentsErasure[]> {
    const { rows } = await this.#channelOf(node).run((client) =>
      client.query<{ owner: string; through_ms: string }>(ERASURES),
    );
    return rows.map((row) => ({ owner: BigInt(row.owner), throughMs: Number(row.through_ms) }));
  }

  close(): void {
    for (const channel of this.#channels.values()) channel.close();
  }
}
