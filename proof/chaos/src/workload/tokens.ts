// Which attempt a token is of: an id that was lost and ran again has two, and words about one say
// nothing of the other.
import { type EpochId, type TxnId } from "@highwater/checker";
import { decodeToken } from "@highwater/protocol";

export function attemptOf(token: string): EpochId | null {
  return decodeToken(token)?.attempt ?? null;
}

/** The id of its transaction: the gateway's own where the client names none. */
export function idIn(token: string): TxnId | undefined {
  return decodeToken(token)?.id;
}
