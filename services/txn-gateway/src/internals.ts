// Parts of the gateway that fuzzing and benchmarks call directly. Nothing that ships imports this
// file.
export { type Begun, SessionHeaders } from "./interactive/session-header.ts";
export { neonAnswer } from "./neon/answer.ts";
export { parseArray } from "./neon/array-text.ts";
export { parseExactly } from "./neon/exact-json.ts";
export { authorizationOf } from "./neon/headers.ts";
export { paramText } from "./neon/params.ts";
export { readRequest } from "./neon/request.ts";
export { decoderOf, KNOWN_ARRAYS } from "./neon/values.ts";
export { TransactionTrace } from "./tracing/transaction-trace.ts";
export { TrackerOrder } from "./trackers/order.ts";
export { readSse } from "./trackers/sse.ts";
export { TrackerStream } from "./trackers/stream.ts";
export { Verdicts } from "./trackers/verdicts.ts";
export {
  acceptBegin,
  acceptCommit,
  type Accepted,
  acceptRequest,
  acceptRollback,
  acceptStatements,
} from "./txn/request.ts";
