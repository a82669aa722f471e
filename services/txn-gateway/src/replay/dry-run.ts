// Finds out how lost transactions would end if they were brought back now.
import { HighwaterError } from "@highwater/protocol";
import { type OpenTransaction } from "@highwater/store";
import { type PrimaryEpoch } from "../primary/primary.ts";
import { type Caller } from "../txn/caller.ts";
import { type End, type Item } from "./ends.ts";
import { openFor, type OpenContext } from "./open.ts";
import { rootOf, runIn, TRIES } from "./run.ts";

/** Of what the writers of the item's rows brought back, one that must not come before it. */
export type Overtaken = (item: Item) => (writers: readonly string[]) => Promise<string | null>;

/**
 * Runs all in one transaction, which is rolled back. A conflict undoes it, so what would be brought
 * back runs again before the next.
 */
export class DryRun {
  readonly #parts: OpenContext;
  readonly #current: PrimaryEpoch;
  readonly #caller: Caller;
  readonly #overtakenBy: Overtaken;
  readonly #done: Item[] = [];
  #open: OpenTransaction | null = null;
  #role: string | null = null;

  constructor(parts: OpenContext, current: PrimaryEpoch, caller: Caller, overtakenBy: Overtaken) {
    this.#parts = parts;
    this.#current = current;
    this.#caller = caller;
    this.#overtakenBy = overtakenBy;
  }

  async run(item: Item): Promise<End> {
    const role = item.lost.contents?.role ?? null;
    if (role !== this.#role) {
      // What another role's have written would be locked.
      await this.end();
      this.#role = role;
    }
    for (let attempt = 1; ; attempt++) {
      try {
        if (this.#open === null) {
          const how = { role, readOnly: false, isolation: "repeatable read" } as const;
          this.#open = await openFor(this.#parts, this.#current, this.#caller, how);
          for (const each of this.#done)
            if ((each.lost.contents?.role ?? null) === role) await this.#runOne(this.#open, each);
        }
        const ran = await this.#runOne(this.#open, item);
        if (ran !== "taken" && "results" in ran) {
          this.#done.push(item);
          return { outcome: "replayed" };
        }
        await this.end();
        if (ran === "taken") return { outcome: "replayed" };
        return { outcome: "conflict", ...ran };
      } catch (cause) {
        await this.end();
        const isRetried = cause instanceof HighwaterError && cause.code === "serialization_failure";
        if (!isRetried || attempt >= TRIES) throw cause;
      }
    }
  }

  async #runOne(open: OpenTransaction, item: Item): Promise<Awaited<ReturnType<typeof runIn>>> {
    const { lost, examined, since } = item;
    if (examined.kind !== "steps" || since === null) throw new Error("it was not examined");
    const { signal } = this.#caller;
    const root = rootOf(item, lost.id);
    const ran = await runIn(open, lost, examined, {
      root,
      since,
      signal,
      overtakenBy: this.#overtakenBy(item),
    });
    if (ran === "taken" || !("results" in ran)) return ran;
    try {
      await open.run([{ sql: "SET CONSTRAINTS ALL IMMEDIATE" }, { sql: "SET CONSTRAINTS ALL DEFERRED" }]);
    } catch (cause) {
      if (!(cause instanceof HighwaterError) || cause.code !== "constraint_violation") throw cause;
      return { reason: "refused", error: cause.details.detail ?? cause.message };
    }
    return ran;
  }

  async end(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    await open?.rollback();
  }
}
