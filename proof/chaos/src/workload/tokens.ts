// Which attempt a token is of: an id that was lost and ran again has two, and words about one say
// nothing of the other.
import { type EpochId } from "@highwater/checker";
import { decodeToken } from "@highwater/protocol";

export function attemptOf(token: string): EpochId | null {
  return decodeToken(token)?.attempt ?? null;
}
