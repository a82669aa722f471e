// What every variable means, for docs/reference/gateway-config.md.
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
  GATEWAY_HOST: about("where it listens", "`127.0.0.1`"),
  GATEWAY_PORT: about("0: any free port"),
  GATEWAY_PG_PORT: about("port for clients of PostgreSQL; 0: any free port", NONE),
  GATEWAY_PG_READ_PORT: about(
    "port for those of them that only read: at a replica in the region, where there is one and no primary",
    NONE,
  ),
  GATEWAY_PG_AUTH: about(
    "how they prove who they are: `keys` (the password is an API key of the role) or `passthrough` (the server asks them)",
    "`keys`",
  ),
  GATEWAY_PG_PROXIES: about(
    "addresses and networks of the proxies in front of these ports, separated by commas: [keys.md](keys.md#refused-credentials)",
    NONE,
  ),
  GATEWAY_PG_MAX_CONNECTIONS: about("connections of such clients; each has a session at the primary"),
  GATEWAY_PG_MAX_CONNECTIONS_PER_ROLE: about("the same of one role"),
  GATEWAY_PG_READ_TIMEOUT_MS: about(
    "a session is ended when its client has read nothing of an answer for so long; at a replica after 30 s at the latest",
  ),
  GATEWAY_PG_IDLE_TIMEOUT_MS: about(
    "a session outside of a transaction is ended when its client has sent nothing for so long; 0: never",
  ),
  GATEWAY_PEERS: about(
    "base URLs of the other gateways, separated by commas: a cancel reaches its session at any of them",
    NONE,
  ),
  GATEWAY_CORS_ORIGINS: about(
    "origins of pages that may call from a browser, separated by commas: [http.md](http.md#pages-in-a-browser)",
    NONE,
  ),
  GATEWAY_NAME: about("unique among the running gateways; the first part of `Highwater-Session`", REQUIRED),
  GATEWAY_REGION: about("where it is; `mode: local` reads there", REQUIRED),
  GATEWAY_TRACKERS: about("base URLs of the trackers, nearest first, separated by commas", NONE),
  HIGHWATER_TLS_CA: about(
    "authorities that sign the services' certificates, PEM or `@file`; with it no other authority counts",
    "those that Node knows",
  ),
  GATEWAY_POOL_SIZE: about("database sessions of the service's own role to each node"),
  GATEWAY_POOL_QUEUE: about("transactions that may wait for one of them; more get 503 `overloaded`"),
  GATEWAY_CONNECT_TIMEOUT_MS: about("for a connection to a node"),
  GATEWAY_STATEMENT_TIMEOUT_MS: about("for one statement; a key can have its own"),
  GATEWAY_LOCK_TIMEOUT_MS: about("for a statement's wait for a lock; a key can have its own"),
  GATEWAY_ROLE_POOL_SIZE: about("database sessions of each key's login role to each node"),
  GATEWAY_MAX_OPEN: about("interactive transactions that may be open"),
  GATEWAY_MAX_OPEN_PER_KEY: about("the same of one key; a key can have its own"),
  GATEWAY_MAX_TICKETS: about("tickets that may be open; of one owner half as many"),
  GATEWAY_IDLE_TIMEOUT_MS: about("an open transaction is rolled back when no call has come for so long"),
  GATEWAY_TOTAL_TIMEOUT_MS: about("what a transaction of either kind may take in all"),
  GATEWAY_MAX_WAITING: about("safe transactions that may wait to become durable at a time"),
  GATEWAY_BODY_LIMIT_BYTES: about("of a request; more is 413 `body_too_large`"),
  GATEWAY_MAX_ROWS: about("of one result"),
  GATEWAY_MAX_RESULT_BYTES: about("of all results of a request together"),
  GATEWAY_RESULT_MEMORY_BYTES: about(
    "memory for all results that the process holds until they are read; one owner gets half of it, above that 503 `overloaded`; at least six times `GATEWAY_MAX_RESULT_BYTES`",
  ),
  GATEWAY_READ_TIMEOUT_MS: about("a client that reads nothing of a large answer for so long is cut off"),
  GATEWAY_PROBE_INTERVAL_MS: about("how often the nodes are looked at"),
  GATEWAY_MAX_PENDING_ANNOUNCEMENTS: about(
    "transactions that no tracker has acknowledged; at the bound 503 `exposure_limit`",
  ),
  GATEWAY_ID_FUTURE_MS: about("how far ahead of the server's clock the time inside an id may be"),
  GATEWAY_MAX_WAIT_MS: about("`maxWaitMs` of a safe transaction that does not say it"),
  GATEWAY_ROLE_PASSWORDS: about("passwords of login roles as JSON, by role, or `@file`", NONE),
  HIGHWATER_INTERNAL_SECRET: about(
    "by which services know gateways, at least 16 characters, or `@file`; the same everywhere",
    NONE,
  ),
};

/** Rows of the table, in the order of the configuration. */
export function configRows(): string[] {
  return referenceRows(VARIABLES, RANGES, ABOUT);
}
