// API keys in PostgreSQL, and the login roles of their transactions. Opens one connection to each
// node when it is needed.
import pg from "pg";
import { type Act, type AuditEntry, type AuditQuestion } from "../audit.ts";
import {
  type ApiKey,
  DEFAULT_LIMITS,
  type KeyAdmin,
  type KeyLimits,
  type NewApiKey,
  type RoleAccess,
  type RoleClaim,
  type RoleFacts,
  type Scope,
} from "../keys.ts";
import { type StoreNode } from "../port.ts";
import { actingAs, readAudit } from "./audit.ts";
import { NodeChannels, type NodeChannelsOptions } from "./node-channels.ts";
import { namingHolders } from "./locks.ts";
import { accessFaults, PROTECT, vetLogin } from "./reader-roles.ts";
import { roleFaults } from "./role-faults.ts";
import { scramVerifier } from "./scram.ts";

const COLUMNS = `id, secret_hash, name, owner, role, scopes, limits, min_level, on_lost,
  floor(extract(epoch FROM created_at) * 1000)::text AS created_at_ms,
  floor(extract(epoch FROM expires_at) * 1000)::text AS expires_at_ms,
  floor(extract(epoch FROM revoked_at) * 1000)::text AS revoked_at_ms,
  (extract(epoch FROM changed_at) * 1000000)::bigint::text AS changed`;

/** $1 microseconds since 1970, or NULL for all. */
const READ = `SELECT ${COLUMNS} FROM highwater.api_key
WHERE $1::bigint IS NULL OR (extract(epoch FROM changed_at) * 1000000)::bigint > $1::bigint ORDER BY changed_at`;

const INSERT = `INSERT INTO highwater.api_key (id, secret_hash, name, owner, role, scopes, limits, expires_at, min_level, on_lost)
VALUES ($1, $2, $3, $4, $5, $6, $7, to_timestamp($8::float8 / 1000), $9, $10) RETURNING ${COLUMNS}`;

const REVOKE = `UPDATE highwater.api_key SET revoked_at = coalesce(revoked_at, clock_timestamp())
WHERE id = $1 RETURNING ${COLUMNS}`;

const EXPIRE = `UPDATE highwater.api_key SET expires_at = to_timestamp($2::float8 / 1000)
WHERE id = $1 RETURNING ${COLUMNS}`;

/** $1 role, $2 access. */
const ROLE = `SELECT r.rolcanlogin AS can_login,
  ARRAY(${roleFaults("$1")}) || ARRAY(${accessFaults("$1", "$2::text")}) AS faults
FROM pg_roles r WHERE r.rolname = $1`;

/** $1 role, $2 owner, $3 access. The first word stands. */
const CLAIM = `INSERT INTO highwater.login_role AS l (role, owner, access) VALUES ($1, $2, $3)
ON CONFLICT (role) DO UPDATE SET role = l.role RETURNING owner, access`;

const GROUPS: Readonly<Record<RoleAccess, string>> = { read: "highwater_read", write: "highwater_app" };

/** What a change waits for. */
const LOCKED = ["highwater.key_turn", "highwater.api_key", "highwater.audit_turn"];

/** The services' role can do none of that (decision 0105). */
const PREPARER = `SELECT r.rolname AS role, r.rolsuper OR r.rolcreaterole OR r.rolcreatedb AS administers,
  (SELECT pg_get_userbyid(n.nspowner) FROM pg_namespace n WHERE n.nspname = 'highwater') AS owner
FROM pg_roles r WHERE r.rolname = current_user`;

const TABLE = "SELECT to_regclass('highwater.api_key') IS NOT NULL AS present";

export class PostgresKeys implements KeyAdmin {
  readonly nodes: readonly StoreNode[];
  readonly #channels: NodeChannels;

  constructor(options: NodeChannelsOptions) {
    this.nodes = options.nodes.map(({ id, region, zone }) => ({ id, region, zone }));
    this.#channels = new NodeChannels(options, "keys", {
      // Before the call's own limit, so that there is time to find out who is in the way.
      lock_timeout: String(Math.ceil(options.callTimeoutMs / 2)),
    });
  }

  async #query<Row extends pg.QueryResultRow>(
    node: string,
    text: string,
    values: readonly unknown[] = [],
    act?: Act,
  ): Promise<Row[]> {
    const ask = (client: pg.Client) =>
      namingHolders(client, LOCKED, () => actingAs(client, act, () => client.query<Row>(text, [...values])));
    return (await this.#channels.of(node).run(ask)).rows;
  }

  async hasKeys(node: string): Promise<boolean> {
    const [row] = await this.#query<{ present: boolean }>(node, TABLE);
    return row?.present === true;
  }

  async whyNotPrepare(node: string): Promise<string | null> {
    const [row] = await this.#query<{ role: string; administers: boolean; owner: string | null }>(
      node,
      PREPARER,
    );
    if (row === undefined || row.role === row.owner) return null;
    const { role, administers, owner } = row;
    if (owner !== null)
      return `the schema highwater belongs to the role ${owner} and lacks tables, and the command logs in as ${role}, which would own them`;
    return administers
      ? `there is no schema highwater yet, and the command logs in as ${role}, which administers the server and would own it`
      : null;
  }

  async readKeys(node: string, after: bigint | null): Promise<readonly ApiKey[]> {
    const rows = await this.#query<KeyRow>(node, READ, [after === null ? null : String(after)]);
    return rows.map(apiKey);
  }

  async insertKey(node: string, key: NewApiKey, act?: Act): Promise<ApiKey> {
    const {
      id,
      secretHash,
      name,
      owner,
      role,
      scopes,
      limits,
      expiresAtMs,
      minLevel = null,
      onLost = null,
    } = key;
    const kept = Object.entries(limits).filter(([, value]) => value !== null);
    const values = [
      ...[id, Buffer.from(secretHash), name, owner, role, scopes],
      ...[JSON.stringify(Object.fromEntries(kept)), expiresAtMs, minLevel, onLost],
    ];
    const [row] = await this.#query<KeyRow>(node, INSERT, values, act);
    if (row === undefined) throw new Error("the key was not written");
    return apiKey(row);
  }

  async revokeKey(node: string, id: string, act?: Act): Promise<ApiKey | null> {
    const [row] = await this.#query<KeyRow>(node, REVOKE, [id], act);
    return row === undefined ? null : apiKey(row);
  }

  async expireKey(node: string, id: string, expiresAtMs: number, act?: Act): Promise<ApiKey | null> {
    const [row] = await this.#query<KeyRow>(node, EXPIRE, [id, expiresAtMs], act);
    return row === undefined ? null : apiKey(row);
  }

  async readRole(node: string, role: string, access: RoleAccess): Promise<RoleFacts | null> {
    const [row] = await this.#query<RoleRow>(node, ROLE, [role, access]);
    return row === undefined ? null : { canLogin: row.can_login, faults: row.faults };
  }

  async claimRole(node: string, role: string, { owner, access }: RoleClaim, act?: Act): Promise<RoleClaim> {
    const [row] = await this.#query<RoleClaim>(node, CLAIM, [role, owner, access], act);
    if (row === undefined) throw new Error("the login role was not recorded");
    return row;
  }

  protect(node: string, role: string): Promise<readonly string[]> {
    return this.#channels.of(node).run(async (client) => {
      // One message, so one transaction. Two at once would change the same rows.
      await client.query(`LOCK TABLE highwater.login_role IN SHARE ROW EXCLUSIVE MODE; ${PROTECT}`);
      return (await vetLogin(client, role)).unprotected;
    });
  }

  async createRole(node: string, role: string, access: RoleAccess, password: string | null): Promise<void> {
    // One message, so one transaction: there is never a role that only half exists. A server that
    // logs statements gets to see no more of the password than it stores.
    const secret = password === null ? "" : ` PASSWORD ${pg.escapeLiteral(scramVerifier(password))}`;
    const name = pg.escapeIdentifier(role);
    await this.#channels
      .of(node)
      .run((client) =>
        client.query(`CREATE ROLE ${name} LOGIN${secret}; GRANT ${GROUPS[access]} TO ${name}`),
      );
  }

  readAudit(node: string, question: AuditQuestion): Promise<readonly AuditEntry[]> {
    return this.#channels.of(node).run((client) => readAudit(client, question));
  }

  close(): void {
    this.#channels.close();
  }
}

interface KeyRow {
  id: string;
  secret_hash: Buffer;
  name: string;
  owner: string;
  role: string;
  scopes: Scope[];
  limits: Partial<Record<string, number>>;
  min_level: string | null;
  on_lost: "replay" | null;
  created_at_ms: string;
  expires_at_ms: string | null;
  revoked_at_ms: string | null;
  changed: string;
}

interface RoleRow {
  can_login: boolean;
  faults: string[];
}

function apiKey(row: KeyRow): ApiKey {
  return {
    id: row.id,
    secretHash: row.secret_hash,
    name: row.name,
    owner: row.owner,
    role: row.role,
    scopes: row.scopes,
    limits: keyLimits(row.limits),
    ...(row.min_level !== null && { minLevel: row.min_level }),
    ...(row.on_lost !== null && { onLost: row.on_lost }),
    createdAtMs: Number(row.created_at_ms),
    expiresAtMs: row.expires_at_ms === null ? null : Number(row.expires_at_ms),
    revokedAtMs: row.revoked_at_ms === null ? null : Number(row.revoked_at_ms),
    changed: BigInt(row.changed),
  };
}

/** The table takes numbers only; a limit of another version of the service is of no use here. */
function keyLimits(kept: Partial<Record<string, number>>): KeyLimits {
  const limits = Object.keys(DEFAULT_LIMITS).map((name): [string, number | null] => [
    name,
    kept[name] ?? null,
  ]);
  return Object.fromEntries(limits) as unknown as KeyLimits;
}
