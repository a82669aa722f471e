// Parts of the tracker that fuzzing calls directly. Nothing that ships imports this file.
export { ContentsDatabase } from "./contents/contents-database.ts";
export { groupsOf } from "./contents/entries.ts";
export { type LedgerEntry, type Waiting } from "./core/index.ts";
export { readEventsQuery } from "./events/query.ts";
export { formatCursor, parseCursor } from "./events/wire.ts";
export { decodeEntry, decodeWaiting, encodeEntry, encodeWaiting } from "./shell/ledger-codec.ts";
export { type AnyTable, type KeptRow, LedgerDatabase } from "./shell/ledger-database.ts";
export { checkedAddresses, checkUrl, isPublic, parseAllowList } from "./webhooks/address.ts";
export { parseRetryAfter } from "./webhooks/schedule.ts";
