// Reads a token's attempt: an id that was lost and ran again has two, and a report about one says
// nothing about the other.
import { type EpochId, type TxnId } from "@highwater/checker";
import { decodeToken } from "@highwater/protocol";

export function attemptOf(token: string): EpochId | null {
  return decodeToken(token)?.attempt ?? null;
}

/** The id in the token. The gateway chose it if the client did not. */
export function idIn(token: string): TxnId | undefined {
  return decodeToken(token)?.id;
}
