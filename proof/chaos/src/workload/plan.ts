// Plans what a client does, from its seed alone: the operations of each transaction and how it
// runs.
import { type Level, type Operation, type TxnId } from "@highwater/checker";
import { ACCOUNTS, SHARED_ROWS } from "./schema.ts";
import { type Random } from "./random.ts";

export interface Plan {
  readonly operations: readonly Operation[];
  readonly readOnly: boolean;
  readonly ack: "commit" | "durable";
  readonly level: Level;
  readonly isolation: "serializable" | "snapshot";
  /** The same request is sent twice at the same time. */
  readonly isDuplicated: boolean;
  /**
   * `rerun`: runs the body again at once under a new id. `resend`: sends the same id again, which
   * must never run.
   */
  readonly onLost: "rerun" | "resend" | "accept";
  /** Trackers are to keep its contents. */
  readonly keep: boolean;
  /** Further levels at which the client waits for durability. */
  readonly alsoAt: readonly Level[];
}

/** The level that clients use by default. */
export function usualLevel(levels: readonly Level[]): Level {
  const strongest = levels.at(-1);
  if (strongest === undefined) throw new Error("there are no levels");
  return levels.includes("region") ? "region" : strongest;
}

/** Metadata for filters of webhooks: the transaction's id puts it into one of sixteen shares. */
export function metadataOf(txn: TxnId): { readonly share: string } {
  return { share: txn.slice(-1) };
}

export interface PlannerOptions {
  readonly random: Random;
  readonly levels: readonly Level[];
  /** A value that no other operation uses. */
  readonly newValue: () => number;
  /** A part of the transactions is kept, and can be brought back. */
  readonly keeps?: boolean;
}

/** How many keys are in use at a time. A few of them get most of the operations. */
const KEYS = 24;
const SKEW = 1.6;
/**
 * After this many transactions a client uses other keys, so that lists stay short enough to be read
 * often.
 */
const TRANSACTIONS_PER_GENERATION = 40;
const OPERATIONS_MAX = 4;
const AMOUNT_MAX = 10;
const KEPT = 0.35;
/** Rows that it has made and adds to. */
const OWN_ROWS = 12;
const UUID_BYTES = 16;
/** A dozen of the shared rows gets half of what they get. */
const ROW_SKEW = 3;

const KINDS = { list: 52, mixed: 10, reads: 14, transfer: 14, sum: 4, insert: 6 } as const;
const ON_LOST = { rerun: 5, resend: 3, accept: 2 } as const;
const ROW_OPERATIONS = { make: 30, add: 55, look: 15 } as const;
const ADD_HOW = { shown: 42, silent: 42, upsert: 16 } as const;
const LIST_OPERATIONS = { read: 35, append: 40, readAppend: 25 } as const;

export class Planner {
  readonly #options: PlannerOptions;
  #planned = 0;
  #ownRows: readonly string[] = [];

  constructor(options: PlannerOptions) {
    this.#options = options;
  }

  next(): Plan {
    const { random, keeps = false } = this.#options;
    this.#planned += 1;
    if (keeps && random.chance(KEPT)) return this.#nextKept();
    const kind = random.weighted(KINDS);
    const readOnly = kind === "reads" || kind === "sum";
    return {
      operations: this.#operations(kind),
      readOnly,
      isolation: "serializable",
      ...this.#choices(readOnly),
    };
  }

  /** A plan that writes, so that a later request can ask for its values. */
  nextWrite(): Plan {
    this.#planned += 1;
    const { random } = this.#options;
    const operations = this.#operations(random.chance(0.8) ? "list" : "mixed");
    return { operations, readOnly: false, isolation: "serializable", ...this.#choices(false) };
  }

  /** A plan of one statement: a single one, or rows to copy into the set. */
  nextSingle(way: "alone" | "copy"): Plan {
    this.#planned += 1;
    const { random, newValue } = this.#options;
    const insert = (): Operation => ({ f: "insert", value: newValue() });
    const operations =
      way === "copy"
        ? this.#some(insert)
        : [random.chance(0.5) ? insert() : ({ f: "append", key: this.#key(), value: newValue() } as const)];
    return { operations, readOnly: false, isolation: "serializable", ...this.#choices(false) };
  }

  /** A read that may run on a replica: the keys of the operations, and another one. */
  nextSnapshotRead(touched: readonly Operation[]): Plan {
    const { random } = this.#options;
    const keys = touched.flatMap((operation) => ("key" in operation ? [operation.key] : []));
    const operations: Operation[] = [...new Set(keys)].map((key) => ({ f: "read", key }));
    operations.push({ f: "read", key: this.#key() });
    if (random.chance(0.3)) operations.push({ f: "sum" });
    const { level, alsoAt } = this.#choices(true);
    return {
      operations,
      readOnly: true,
      isolation: "snapshot",
      ack: "commit",
      level,
      alsoAt,
      isDuplicated: false,
      onLost: "accept",
      keep: false,
    };
  }

  /** A plan that can be brought back, unless a list keeps it from that. */
  #nextKept(): Plan {
    const { random, newValue } = this.#options;
    const operations = this.#some(() => this.#rowOperation());
    if (operations.every(({ f }) => f === "look"))
      operations.push({ f: "add", key: random.pick(SHARED_ROWS), value: newValue(), how: "silent" });
    if (random.chance(0.06)) operations.push({ f: "append", key: this.#key(), value: newValue() });
    const choices = this.#choices(false);
    // Who brings it back is the operator. Only a client whose own request is answered as lost runs
    // it again.
    const onLost = choices.onLost === "rerun" && choices.ack === "commit" ? "accept" : choices.onLost;
    return { operations, readOnly: false, isolation: "serializable", ...choices, onLost, keep: true };
  }

  #rowOperation(): Operation {
    const { random, newValue } = this.#options;
    const f = random.weighted(ROW_OPERATIONS);
    if (f === "make") {
      const hex = Array.from({ length: UUID_BYTES }, () => random.below(256).toString(16).padStart(2, "0"));
      const key = hex.join("").replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1-$2-4$3-8$4-$5");
      this.#ownRows = [key, ...this.#ownRows].slice(0, OWN_ROWS);
      return { f, key, value: newValue() };
    }
    const isOwn = this.#ownRows.length > 0 && random.chance(0.5);
    const shared = SHARED_ROWS[Math.floor(SHARED_ROWS.length * random.next() ** ROW_SKEW)] ?? "";
    const key = isOwn ? random.pick(this.#ownRows) : shared;
    return f === "look" ? { f, key } : { f, key, value: newValue(), how: random.weighted(ADD_HOW) };
  }

  /** The same body with new values, so that every reader knows which run it sees. */
  again(plan: Plan): Plan {
    const operations = plan.operations.map((operation) =>
      "value" in operation ? { ...operation, value: this.#options.newValue() } : operation,
    );
    return { ...plan, operations, isDuplicated: false };
  }

  #operations(kind: keyof typeof KINDS): Operation[] {
    const { random, newValue } = this.#options;
    switch (kind) {
      case "list":
        return this.#some(() => this.#listOperation());
      case "mixed":
        return [
          this.#listOperation(),
          random.chance(0.5) ? this.#transfer() : { f: "insert", value: newValue() },
        ];
      case "reads":
        return this.#some(() => ({ f: "read", key: this.#key() }));
      case "transfer":
        return [this.#transfer()];
      case "sum":
        return [{ f: "sum" }];
      case "insert":
        return [{ f: "insert", value: newValue() }];
    }
  }

  #choices(readOnly: boolean): Pick<Plan, "ack" | "level" | "isDuplicated" | "onLost" | "alsoAt" | "keep"> {
    const { random, levels } = this.#options;
    const usual = usualLevel(levels);
    const strongest = levels.at(-1) ?? usual;
    const isSafe = random.chance(0.25);
    const level = random.chance(isSafe ? 0.2 : 0.05) ? random.pick([strongest, levels[0] ?? usual]) : usual;
    return {
      ack: isSafe ? "durable" : "commit",
      level,
      isDuplicated: random.chance(0.06) && !readOnly,
      onLost: random.weighted(ON_LOST),
      keep: false,
      alsoAt: random.chance(0.15) ? levels.filter((other) => other !== level) : [],
    };
  }

  #some(make: () => Operation): Operation[] {
    return Array.from({ length: 1 + this.#options.random.below(OPERATIONS_MAX) }, make);
  }

  #listOperation(): Operation {
    const { random, newValue } = this.#options;
    const f = random.weighted(LIST_OPERATIONS);
    const key = this.#key();
    return f === "read" ? { f, key } : { f, key, value: newValue() };
  }

  #key(): string {
    const generation = Math.floor(this.#planned / TRANSACTIONS_PER_GENERATION);
    const number = Math.floor(KEYS * this.#options.random.next() ** SKEW);
    return `${String(generation)}.${String(number)}`;
  }

  #transfer(): Operation {
    const { random } = this.#options;
    const from = random.below(ACCOUNTS);
    const to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
    return { f: "transfer", from, to, amount: 1 + random.below(AMOUNT_MAX) };
  }
}
