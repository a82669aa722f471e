// Parts of the store that fuzzing calls directly. Nothing that ships imports this file.
export { formatLsn, parseLsn } from "./postgres/lsn.ts";
export { changesRows, changesSession, leadingWords, refusal } from "./postgres/statement-guard.ts";
