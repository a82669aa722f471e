// Parts of the store that fuzzing and tests call directly. Nothing that ships imports this file.
export { CockroachStore } from "./cockroach/adapter.ts";
export { formatLsn, parseLsn } from "./postgres/lsn.ts";
export { INSERT_RECEIPT } from "./postgres/sql.ts";
export { changesRows, changesSession, leadingWords, refusal } from "./postgres/statement-guard.ts";
export { WIRE_STATEMENTS } from "./postgres/wire-statements.ts";
