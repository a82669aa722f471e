// Examines lost transactions of all owners, before any of them is run again. Those of each owner
// and role have sessions and a time limit of their own, which this side keeps: their role, their
// sessions and their functions cannot keep others from coming back.
// (docs/decisions/0253-one-owner-holds-up-no-other-owners-replays.md)
import { HighwaterError } from "@highwater/protocol";
import { sleep } from "@highwater/runtime";
import { timeLimit } from "../attempts/bounds.ts";
import { type PrimaryEpoch } from "../primary/primary.ts";
import { type Caller } from "../txn/caller.ts";
import { type Item, UNKNOWN } from "./ends.ts";
import { Examiner, type Run } from "./examine.ts";
import { openFor, type OpenContext } from "./open.ts";

interface How {
  readonly caller: Caller;
  /** For each owner and role; less if they have few. */
  readonly limitMs: number;
  /** Errors: HighwaterError if the node cannot be asked, or is not the primary of the epoch. */
  readonly mustLead: () => Promise<void>;
}

interface Group {
  readonly role: string | null;
  readonly items: readonly Item[];
}

/** Owners and roles that are examined side by side. */
const AT_A_TIME = 4;
/** Session, settings, facts of tables: some round trips, also to another continent. */
const LIMIT_MS = 5_000;
/** Many share a round trip, so that this is for the planning of large ones. */
const EACH_MS = 25;
const TRIES = 3;
const PAUSE_MS = 200;

/**
 * Sets `examined` of each. Where a role cannot be examined, its transactions are refused with the
 * reason. Errors: HighwaterError if the primary cannot be asked, or the caller is gone.
 */
export async function examineAll(
  items: readonly Item[],
  current: PrimaryEpoch,
  parts: OpenContext,
  how: How,
): Promise<void> {
  const nameOf = ({ lost: { owner, contents } }: Item): string =>
    JSON.stringify([String(owner), contents?.role ?? null]);
  const waiting = [...Map.groupBy(items, nameOf).values()];
  const over = new AbortController();
  const work = async (): Promise<void> => {
    for (let own = waiting.shift(); own !== undefined; own = waiting.shift()) {
      const group = { role: own[0]?.lost.contents?.role ?? null, items: own };
      await examineGroup(group, current, parts, { ...how, over: over.signal });
    }
  };
  try {
    await Promise.all(Array.from({ length: AT_A_TIME }, work));
  } finally {
    over.abort(new Error("the examination is over"));
  }
}

/** Only a fault of the primary, or of the caller, is no matter of this group alone. */
async function examineGroup(
  group: Group,
  current: PrimaryEpoch,
  parts: OpenContext,
  { caller, limitMs, over, mustLead }: How & { readonly over: AbortSignal },
): Promise<void> {
  const { clock, log } = parts.deps;
  const withinMs = Math.min(LIMIT_MS + EACH_MS * group.items.length, limitMs);
  const detail = `PostgreSQL did not plan the statements within ${String(Math.round(withinMs))} ms.`;
  const late = timeLimit(clock, withinMs, detail);
  const signal = AbortSignal.any([
    late.signal,
    over,
    ...(caller.signal === undefined ? [] : [caller.signal]),
  ]);
  try {
    for (let attempt = 1; ; attempt++) {
      try {
        await untilAborted(examineIn(group, current, parts, { ...caller, signal }), signal);
        return;
      } catch (cause) {
        for (const gone of [caller.signal, over]) gone?.throwIfAborted();
        await mustLead();
        const isForbidden = cause instanceof HighwaterError && cause.code === "forbidden";
        if (attempt < TRIES && !isForbidden && !signal.aborted) {
          await sleep(clock, PAUSE_MS, signal);
          continue;
        }
        const left = group.items.filter(({ examined }) => examined === UNKNOWN);
        const why = reasonOf(cause);
        for (const item of left) item.examined = { kind: "refused", why };
        log.warn("replay_not_examined", {
          role: group.role,
          transactions: left.length,
          cause: String(cause),
        });
        return;
      }
    }
  } finally {
    late.end();
  }
}

/** In a transaction that only reads. Nothing is set behind the abort. */
async function examineIn(
  { role, items }: Group,
  current: PrimaryEpoch,
  parts: OpenContext,
  caller: Caller & { readonly signal: AbortSignal },
): Promise<void> {
  const { signal } = caller;
  const begun = await openFor(parts, current, caller, { role, readOnly: true, isolation: "repeatable read" });
  try {
    const run: Run["run"] = (statements) => {
      signal.throwIfAborted();
      return begun.run(statements, signal);
    };
    const examiner = await Examiner.in({ run });
    const left = items.filter(({ examined }) => examined === UNKNOWN);
    const asked = left.map(({ lost, since }) => ({ lost, since: since ?? "" }));
    await examiner.examine(asked, (at, examined) => {
      const item = left[at];
      if (item !== undefined && !signal.aborted) item.examined = examined;
    });
  } finally {
    await begun.rollback();
  }
}

/** Does not wait for what catches its cancellation: that ends by itself, with its session. */
function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      reject(signal.reason as Error);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    void work.then(resolve, reject).finally(() => {
      signal.removeEventListener("abort", onAbort);
    });
  });
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof HighwaterError)) return UNKNOWN.why;
  return `${UNKNOWN.why}: ${cause.details.detail ?? cause.message}`;
}
