// Ids of transactions whose client has chosen none.
import { randomBytes } from "node:crypto";
import { makeUuidV7, type TxnId } from "@highwater/protocol";

const RANDOM_BYTES = 10;

export const newTxnId = (nowMs: number): TxnId => makeUuidV7(nowMs, randomBytes(RANDOM_BYTES));
