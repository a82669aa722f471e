// The marks of erasures in PostgreSQL, and the entries that contents were read. Opens one
// connection to each node when it is needed.
import { type Act } from "../audit.ts";
import {
  type ContentsErasure,
  type ContentsStore,
  type ReadContents,
  type RecordedReplay,
  type ReplayedRows,
  type ReplayTurn,
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

/** $1 xids, $2 epoch. */
const ROOTS_BEHIND = `SELECT r.root::text AS id, r.tag::text FROM highwater.redo r JOIN highwater.epoch e ON e.id = $2
WHERE xid(r.writer) = ANY($1::text[]::xid[]) AND (e.began IS NULL OR r.writer >= e.began)`;

/**
 * $1 epoch, $2 gateway, $3 its turn and $4 its patience in milliseconds. An earlier epoch that
 * ended before its hold admitted no write either.
 */
const TAKE_TURN = `WITH RECURSIVE taken AS (
  UPDATE highwater.replay_hold h SET gateway = $2, turn = clock_timestamp() + $3::int * interval '1 ms'
  WHERE h.epoch = $1 AND h.ended_at IS NULL AND h.until > clock_timestamp()
    AND (h.gateway = $2 OR coalesce(h.turn, h.began) < clock_timestamp() - $4::int * interval '1 ms') RETURNING h.epoch, h.began), held AS (
  SELECT e.id, e.previous, t.began, 1 AS n FROM taken t JOIN highwater.epoch e ON e.id = t.epoch
  UNION ALL
  SELECT e.id, e.previous, h.began, l.n + 1 FROM held l JOIN highwater.epoch e ON e.id = l.previous
  JOIN highwater.replay_hold h ON h.epoch = e.id AND h.ended_at IS NULL AND h.until > l.began)
SELECT held.id::text FROM held ORDER BY n`;

/** $1 epoch. */
const END_HOLD =
  "UPDATE highwater.replay_hold SET ended_at = clock_timestamp() WHERE epoch = $1 AND ended_at IS NULL";

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

  async rootsBehind(node: string, { since, writers }: ReplayedRows): Promise<readonly ReceiptKey[]> {
    const { rows } = await this.#channels
      .of(node)
      .run((client) => client.query<ReceiptKey>(ROOTS_BEHIND, [writers, since]));
    return rows;
  }

  async takeTurn(
    node: string,
    { epoch, gateway, turnMs, patienceMs }: ReplayTurn,
  ): Promise<readonly string[] | null> {
    const { rows } = await this.#channels
      .of(node)
      .run((client) => client.query<{ id: string }>(TAKE_TURN, [epoch, gateway, turnMs, patienceMs]));
    return rows.length === 0 ? null : rows.map(({ id }) => id);
  }

  async endHold(node: string, epoch: string): Promise<void> {
    await this.#channels.of(node).run((client) => client.query(END_HOLD, [epoch]));
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
