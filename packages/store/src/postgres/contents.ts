// The marks of erasures in PostgreSQL, and the entries that contents were read. Opens one
// connection to each node when it is needed.
import { type Act } from "../audit.ts";
import {
  type ContentsErasure,
  type ContentsStore,
  type ReadContents,
  type RecordedReplay,
} from "../contents.ts";
import { type ReceiptKey } from "../port.ts";
import { actingAs } from "./audit.ts";
import { NodeChannels, type NodeChannelsOptions } from "./node-channels.ts";

/** $1 id, $2 owner, $3 attempt. */
const READ = `SELECT highwater.audit(NULL, 'contents.read', $1, NULL, jsonb_build_object('owner', $2::text, 'attempt', $3::text))`;

/** $1 ids, $2 owner. */
const REPLAY = `SELECT highwater.audit(NULL, 'contents.replay', id, NULL, jsonb_build_object('owner', $2::text)) FROM unnest($1::text[]) id`;

/** $1 ids, $2 their tags. */
const REDONE = `SELECT r.id::text FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY k (id, tag, n)
LEFT JOIN highwater.redo r ON r.root = k.id AND r.tag = k.tag ORDER BY k.n`;

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

  async recordReplay(node: string, { owner, ids }: RecordedReplay, act: Act): Promise<void> {
    await this.#channels
      .of(node)
      .run((client) => actingAs(client, act, () => client.query(REPLAY, [ids, String(owner)])));
  }

  async redone(node: string, roots: readonly ReceiptKey[]): Promise<readonly (string | null)[]> {
    const values = [roots.map(({ id }) => id), roots.map(({ tag }) => tag)];
    const { rows } = await this.#channels
      .of(node)
      .run((client) => client.query<{ id: string | null }>(REDONE, values));
    return rows.map(({ id }) => id);
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
