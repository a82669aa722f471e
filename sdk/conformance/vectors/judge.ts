// Plays a judgement on the book of the TypeScript SDK: marks, epochs and the verdicts of trackers
// come in, and in between what is known of each promise must be what the judgement expects.
import assert from "node:assert/strict";
import { type Verdict } from "@highwater/sdk";
import { makeEntry, type PendingPromise, PendingSet, type Settlement } from "@highwater/sdk/internals";

/** Epochs are numbers here; `as` names the transaction where two waits are for the same. */
type Step =
  | {
      readonly watch: string;
      readonly as?: string;
      readonly epoch: number;
      readonly offset: string;
      readonly level?: string;
    }
  | { readonly marks: Readonly<Record<string, string>>; readonly epoch: number }
  | { readonly epochs: readonly { readonly epoch: number }[] }
  | { readonly verdict: Verdict; readonly of: string; readonly epoch: number; readonly offset: string }
  | { readonly expect: Readonly<Record<string, Verdict>> };

export interface Judgement {
  readonly name: string;
  readonly steps: readonly Step[];
}

interface Watched {
  readonly entry: PendingPromise;
  readonly level: string;
  settled?: Settlement;
}

const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;

export function judge({ steps }: Judgement): void {
  const pendingSet = new PendingSet();
  const entries = new Map<string, PendingPromise>();
  const watched = new Map<string, Watched>();
  const take = (): void => {
    for (const { waiters, settlement } of pendingSet.takeSettled())
      for (const waiter of waiters) waiter(settlement);
  };
  for (const step of steps) {
    if ("watch" in step) {
      const { watch: name, as = name, level = "region" } = step;
      const position = { epoch: uuid(step.epoch), offset: step.offset };
      const entry = entries.get(as) ?? makeEntry(as, { id: uuid(99), position, nowMs: 0 });
      entries.set(as, entry);
      const one: Watched = { entry, level };
      watched.set(name, one);
      const known = pendingSet.known(entry, level);
      if (known === undefined) pendingSet.watch(entry, level, (settlement) => (one.settled = settlement), 0);
      else one.settled = known;
    } else if ("marks" in step)
      pendingSet.learnMarks({ epoch: uuid(step.epoch), seq: step.epoch, levels: { ...step.marks } });
    else if ("epochs" in step) {
      const { epoch } = step.epochs.at(-1) ?? { epoch: 0 };
      pendingSet.learnEpoch(uuid(epoch), epoch);
    } else if ("verdict" in step) {
      const { entry, level } = watched.get(step.of) as Watched;
      const wait = entry.waits.get(level);
      const position = { epoch: uuid(step.epoch), offset: step.offset };
      const { token, id } = entry;
      if (wait) pendingSet.judge(wait, { token, id, level, verdict: step.verdict, position, rule: "test" });
    } else
      for (const [name, expected] of Object.entries(step.expect)) {
        const settled = watched.get(name)?.settled;
        assert.equal(
          settled === undefined ? "pending" : "verdict" in settled ? settled.verdict : settled,
          expected,
          name,
        );
      }
    take();
  }
}
