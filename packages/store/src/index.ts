// The store: the port and the PostgreSQL adapter. (`/memory` is for simulation only.)
export * from "./port.ts";
export * from "./audit.ts";
export * from "./contents.ts";
export * from "./events.ts";
export * from "./keys.ts";
export { COCKROACH_REFUSAL } from "./cockroach/version.ts";
export { POSTGRES_DEFAULTS, PostgresStore, type PostgresStoreOptions } from "./postgres/adapter.ts";
export { enterAct } from "./postgres/audit.ts";
export { PostgresClient } from "./postgres/client.ts";
export { PostgresContents } from "./postgres/contents.ts";
export { PostgresEvents, type PostgresEventsOptions } from "./postgres/events.ts";
export { PostgresKeys } from "./postgres/keys.ts";
export { type ReplicaStream, ReplicaStreams } from "./postgres/replica-streams.ts";
export * as redo from "./postgres/redo.ts";
export { OTHERS } from "./postgres/reader-roles.ts";
export { isHashablePassword, scramVerifier } from "./postgres/scram.ts";
export {
  createRole,
  KEY_GROUPS,
  LOGIN_WITHOUT_POWERS,
  protectStatements,
  serviceRoleStatements,
} from "./postgres/service-role.ts";
