// The meaning of every variable, for docs/reference/gateway-config.md.
import {
  about,
  ABOUT_SHARED,
  type AboutVariables,
  aboutIdentity,
  NONE,
  referenceRows,
  REQUIRED,
} from "@highwater/service";
import { RANGES, VARIABLES } from "./config.ts";
import { ABOUT_EXPOSURE } from "./exposure/settings.ts";

const ABOUT: AboutVariables = {
  ...ABOUT_SHARED,
  ...aboutIdentity("GATEWAY"),
  ...ABOUT_EXPOSURE,
  GATEWAY_HOST: about("address on which the gateway listens", "`127.0.0.1`"),
  GATEWAY_PORT: about("port for HTTP; 0: any free port"),
  GATEWAY_PG_PORT: about("port for PostgreSQL clients; 0: any free port", NONE),
  GATEWAY_PG_READ_PORT: about(
    "port for PostgreSQL clients that only read; served by a replica of the region if the region has one and does not have the primary",
    NONE,
  ),
  GATEWAY_PG_AUTH: about(
    "how the gateway authenticates PostgreSQL clients: `keys` (the password is an API key of the role) or `passthrough` (PostgreSQL authenticates them)",
    "`keys`",
  ),
  GATEWAY_PG_PROXIES: about(
    "addresses and networks of the proxies in front of the PostgreSQL ports, separated by commas: [keys.md](keys.md#refused-credentials)",
    NONE,
  ),
  GATEWAY_PG_MAX_CONNECTIONS: about(
    "maximum number of connections of PostgreSQL clients; each has a session on the primary",
  ),
  GATEWAY_PG_MAX_CONNECTIONS_PER_ROLE: about("maximum number of PostgreSQL connections of one role"),
  GATEWAY_PG_READ_TIMEOUT_MS: about(
    "the gateway ends a PostgreSQL session whose client has read nothing of an answer for this long; on a replica after 30 s at the latest",
  ),
  GATEWAY_PG_IDLE_TIMEOUT_MS: about(
    "the gateway ends a PostgreSQL session outside a transaction whose client has sent nothing for this long; 0: never",
  ),
  GATEWAY_PEERS: about(
    "base URLs of the other gateways, separated by commas; with it, a PostgreSQL cancel may arrive at any gateway",
    NONE,
  ),
  GATEWAY_CORS_ORIGINS: about(
    "origins of the web pages that may call the gateway, separated by commas: [http.md](http.md#pages-in-a-browser)",
    NONE,
  ),
  GATEWAY_NAME: about(
    "name of the gateway, unique among the running gateways; the first part of `Highwater-Session`",
    REQUIRED,
  ),
  GATEWAY_REGION: about("region of the gateway; reads with `mode: local` run there", REQUIRED),
  GATEWAY_TRACKERS: about("base URLs of the trackers, nearest first, separated by commas", NONE),
  HIGHWATER_TLS_CA: about(
    "certificates of the authorities that sign the services' certificates, PEM or `@file`; if set, the gateway trusts no other authority",
    "the authorities that Node.js trusts",
  ),
  GATEWAY_POOL_SIZE: about("maximum number of database sessions of the service's own role to each node"),
  GATEWAY_POOL_QUEUE: about(
    "maximum number of transactions that wait for a session of the service's own role; more get 503 `overloaded`",
  ),
  GATEWAY_CONNECT_TIMEOUT_MS: about("time limit for connecting to a node"),
  GATEWAY_STATEMENT_TIMEOUT_MS: about("time limit for one statement; a key can have its own"),
  GATEWAY_LOCK_TIMEOUT_MS: about("time limit for a statement's wait for a lock; a key can have its own"),
  GATEWAY_ROLE_POOL_SIZE: about("maximum number of database sessions of each key's login role to each node"),
  GATEWAY_MAX_OPEN: about("maximum number of open interactive transactions"),
  GATEWAY_MAX_OPEN_PER_KEY: about(
    "maximum number of open interactive transactions of one key; a key can have its own",
  ),
  GATEWAY_MAX_TICKETS: about("maximum number of open tickets; one owner gets at most half of them"),
  GATEWAY_IDLE_TIMEOUT_MS: about(
    "the gateway rolls an interactive transaction back if no call arrives for this long",
  ),
  GATEWAY_TOTAL_TIMEOUT_MS: about("time limit for a whole transaction, one-shot or interactive"),
  GATEWAY_MAX_WAITING: about("maximum number of safe transactions that wait to become durable"),
  GATEWAY_BODY_LIMIT_BYTES: about("maximum size of a request body; a larger one gets 413 `body_too_large`"),
  GATEWAY_MAX_ROWS: about("maximum number of rows in one result"),
  GATEWAY_MAX_RESULT_BYTES: about("maximum size of all results of a request together"),
  GATEWAY_RESULT_MEMORY_BYTES: about(
    "memory for all results that clients have not read yet; one owner gets at most half of it, and above that 503 `overloaded`; must be at least six times `GATEWAY_MAX_RESULT_BYTES`",
  ),
  GATEWAY_READ_TIMEOUT_MS: about(
    "the gateway closes the connection of a client that reads nothing of a large answer for this long",
  ),
  GATEWAY_PROBE_INTERVAL_MS: about("how often the gateway asks the nodes for their state"),
  GATEWAY_MAX_PENDING_ANNOUNCEMENTS: about(
    "maximum number of transactions that no tracker has acknowledged; more get 503 `exposure_limit`",
  ),
  GATEWAY_KEEP: about(
    "`true`: contents are kept of each transaction that writes, unless its request says otherwise; needs `HIGHWATER_CONTENTS_KEYS`: [What to do when something was lost](../guide/after-a-loss.md)",
    "`false`",
  ),
  GATEWAY_KEEP_BYTES: about(
    "maximum size of the statements and parameters of a transaction that is kept; a larger one with `keep: true` gets 413 `contents_too_large`, any other runs without being kept",
  ),
  GATEWAY_KEEP_PENDING_BYTES: about(
    "maximum size of the encrypted contents that no tracker has acknowledged; above it `keep: true` gets 503 `overloaded`, and any other transaction runs without being kept; one tracker that is out of reach costs the gateway about as much memory",
  ),
  GATEWAY_KEEP_WAIT_MS: about(
    "how long the answer of a kept transaction waits until a tracker has its contents on disk; then the answer says `kept: false`",
  ),
  GATEWAY_REPLAY_INDEPENDENT: about(
    "what your application declares of transactions with `onLost: replay`, as `independent` of a replay: `none`, `rows` or `all`: [after a loss](../guide/after-a-loss.md#bring-them-back-before-anybody-writes)",
    "`none`",
  ),
  GATEWAY_ID_FUTURE_MS: about(
    "how far the time inside an id may be ahead of the database server's clock; a later one gets 400 `id_out_of_window`",
  ),
  GATEWAY_MAX_WAIT_MS: about("`maxWaitMs` of safe transactions that do not set it"),
  GATEWAY_ROLE_PASSWORDS: about("passwords of the login roles: a JSON object by role, or `@file`", NONE),
  HIGHWATER_INTERNAL_SECRET: about(
    "secret with which gateways authenticate to trackers and to each other, at least 16 characters, or `@file`; the same on every gateway and tracker",
    NONE,
  ),
};

/** Rows of the table, in the order of the configuration. */
export function configRows(): string[] {
  return referenceRows(VARIABLES, RANGES, ABOUT);
}
