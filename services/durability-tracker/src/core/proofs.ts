// The keys of entries that no mark can judge, by the state of their proof. proof.ts decides what
// follows.
import { type LookUp, type Own, type Proofs, type TrackerState } from "./types.ts";

/** An id is left alone for as long as its holder may take; its outcome has to be asked for. */
const HELD_AGAIN_MS = 1_000;

const own = ({ proofs }: TrackerState): Omit<Own<Proofs>, "brokenPromises"> => proofs as Own<Proofs>;

/** Its receipt has to be looked up. */
export function doubt(state: TrackerState, key: string): void {
  own(state).unproven.add(key);
}

/** It is not in doubt any more. */
export function settle(state: TrackerState, key: string): void {
  const { unproven, held } = own(state);
  unproven.delete(key);
  held.delete(key);
}

/** The first of those in doubt, which are asked for from now on. */
export function takeUnproven(state: TrackerState, count: number): string[] {
  const { unproven } = own(state);
  const taken: string[] = [];
  for (const key of unproven) {
    if (taken.length === count) break;
    taken.push(key);
    unproven.delete(key);
  }
  return taken;
}

/** Another attempt has the id: it is asked about again a little later. */
export function putAside(state: TrackerState, key: string): void {
  const { unproven, held } = own(state);
  unproven.delete(key);
  held.set(key, state.nowMs);
}

export function askForHeldAgain(state: TrackerState): void {
  const { unproven, held } = own(state);
  for (const [key, sinceMs] of held) {
    if (state.nowMs - sinceMs < HELD_AGAIN_MS) break;
    held.delete(key);
    if (state.ledger.entries.has(key)) unproven.add(key);
  }
}

/** The number of a new look-up. */
export function beginLookUp(state: TrackerState, lookUp: LookUp): number {
  const proofs = own(state);
  const request = proofs.nextRequest++;
  proofs.asked.set(request, lookUp);
  return request;
}

/** Answered, or not to be answered: what it had asked for. */
export function endLookUp(state: TrackerState, request: number): LookUp | undefined {
  const { asked } = own(state);
  const lookUp = asked.get(request);
  asked.delete(request);
  return lookUp;
}

/** A new epoch: answers of an earlier one prove nothing in it. */
export function forgetLookUps(state: TrackerState): void {
  own(state).asked.clear();
}

/** Whether its event waits. */
export function noteUnpublished(state: TrackerState, key: string, isUnpublished: boolean): void {
  own(state).unpublished[isUnpublished ? "add" : "delete"](key);
}
