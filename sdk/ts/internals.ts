// Parts of the SDK that fuzzing and the vectors of conformance call directly. Not published.
export { boundaryOf } from "./src/adapters/enlist/statements.ts";
export { decoderOf } from "./src/decode.ts";
export { answerError } from "./src/errors.ts";
export { decodeToken } from "./src/ids.ts";
export { linesOf } from "./src/lines.ts";
export { makeEntry, type PendingPromise, PendingSet, type Settlement } from "./src/pending-set.ts";
export { decide, resolve, type Situation } from "./src/retry.ts";
export { toParam } from "./src/sql.ts";
export { type SseEvent, sseParser } from "./src/sse.ts";
export { retryAfter } from "./src/transport.ts";
export { DEFAULT_TUNING } from "./src/tuning.ts";
export { isTransactionResponse } from "./src/wire.ts";
