// The marks of erasures in PostgreSQL, and the entries that contents were read. Opens one
// connection to each node when it is needed.
import { type Act } from "../audit.ts";
import { type ContentsErasure, type ContentsStore, type ReadContents } from "../contents.ts";
import { actingAs } from "./audit.ts";
import { NodeChannels, type NodeChannelsOptions } from "./node-channels.ts";

/** $1 id, $2 owner, $3 attempt. */
const READ = `SELECT highwater.audit(NULL, 'contents.read', $1, NULL, jsonb_build_object('owner', $2::text, 'attempt', $3::text))`;

/** $1 owner, $2 milliseconds since 1970. The later mark stands. */
const ERASE = `INSERT INTO highwater.contents_erasure AS e (owner, through_ms) VALUES ($1::numeric, $2)
ON CONFLICT (owner) DO UPDATE SET through_ms = greatest(e.through_ms, excluded.through_ms), erased_at = clock_timestamp()`;

const ERASURES = "SELECT owner::text, through_ms::text FROM highwater.contents_erasure";

export class PostgresContents implements ContentsStore {
  readonly #channels: NodeChannels;

  constructor(options: NodeChannelsOptions) {
    this.#channels = new NodeChannels(options, "contents");
  }

  async recordRead(node: string, { owner, id, attempt }: ReadContents, act: Act): Promise<void> {
    await this.#channels
      .of(node)
      .run((client) => actingAs(client, act, () => client.query(READ, [id, String(owner), attempt])));
  }

  async erase(node: string, { owner, throughMs }: ContentsErasure, act: Act): Promise<void> {
    await this.#channels
      .of(node)
      .run((client) => actingAs(client, act, () => client.query(ERASE, [String(owner), throughMs])));
  }

  async readErasures(node: string): Promise<readonly ContentsErasure[]> {
    const { rows } = await this.#channels
      .of(node)
      .run((client) => client.query<{ owner: string; through_ms: string }>(ERASURES));
    return rows.map((row) => ({ owner: BigInt(row.owner), throughMs: Number(row.through_ms) }));
  }

  close(): void {
    this.#channels.close();
  }
}
