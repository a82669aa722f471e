// Examines lost transactions before any of them runs: which rows each one writes, and why it cannot
// be run again. Asks the database for plans, with the rights of the transaction's role; runs
// nothing.
import { HighwaterError } from "@highwater/protocol";
import { type AsSent, type OpenTransaction, redo } from "@highwater/store";
import { type LostWrite } from "./gather.ts";
import { type Planned, readPlan, type TableFacts, TIMES } from "./plan.ts";

export interface Step {
  readonly statement: AsSent;
  /** Null: it only reads. */
  readonly write: {
    readonly command: "Insert" | "Update" | "Delete";
    readonly facts: TableFacts;
    readonly isGenerated: boolean;
    /** Null: the key is taken from a sequence. */
    readonly row: redo.RowOfTable | null;
  } | null;
}

export type Examined =
  | {
      readonly kind: "steps";
      readonly steps: readonly Step[];
      /** Names of the rows that it writes. */
      readonly rows: ReadonlySet<string>;
      readonly isSchemaUntouched: boolean;
    }
  | { readonly kind: "refused"; readonly why: string; readonly statement?: number };

export interface ToExamine {
  readonly lost: LostWrite;
  /** The epoch that ended its own. */
  readonly since: string;
}

const KNOWN = /^[\s;]*(?:select|insert|update|delete)\b/i;
/** `SELECT INTO` makes a table, and its plan does not show it. */
const MAY_MAKE_TABLE = /^[\s;]*select\b.*\binto\b/is;
const FIRST_WORD = /[a-z]+/i;

/** Transactions whose plans are asked for in one round trip. */
const TOGETHER = 64;

/** Its transaction. */
export type Run = Pick<OpenTransaction, "run">;

/** Works in a transaction that only reads. */
export class Examiner {
  readonly #open: Run;
  /** Facts of the session in which it would run again. */
  readonly #session: Readonly<Record<string, string>>;
  readonly #facts = new Map<string, TableFacts | null>();
  readonly #untouched = new Map<string, boolean>();
  readonly #unsteady = new Map<string, { readonly isStable: boolean } | null>();

  constructor(open: Run, session: Readonly<Record<string, string>>) {
    this.#open = open;
    this.#session = session;
  }

  static async in(open: Run): Promise<Examiner> {
    const [session] = await open.run([redo.SESSION, ...redo.EXPLAIN_SETTINGS]);
    return new Examiner(open, JSON.parse(session?.rows[0]?.[0] ?? "{}") as Record<string, string>);
  }

  /**
   * In the order of `all`, in few round trips: they may be many, and the primary far away.
   * `onExamined` gets the index of each.
   */
  async examine(
    all: readonly ToExamine[],
    onExamined: (at: number, examined: Examined) => void,
  ): Promise<void> {
    for (let from = 0; from < all.length; from += TOGETHER) {
      const some = await this.#examineSome(all.slice(from, from + TOGETHER));
      for (const [n, examined] of some.entries()) onExamined(from + n, examined);
    }
  }

  async #examineSome(some: readonly ToExamine[]): Promise<readonly Examined[]> {
    try {
      return await this.#inSavepoint(() => this.#all(some));
    } catch (cause) {
      if (!(cause instanceof HighwaterError) || cause.details.sqlstate === undefined) throw cause;
      const { detail = cause.message } = cause.details;
      if (some.length === 1) return [{ kind: "refused", why: `not_planned: ${detail}` }];
      const middle = some.length >> 1;
      const first = await this.#examineSome(some.slice(0, middle));
      return [...first, ...(await this.#examineSome(some.slice(middle)))];
    }
  }

  async #inSavepoint<T>(work: () => Promise<T>): Promise<T> {
    await this.#open.run([{ sql: "SAVEPOINT examined" }]);
    try {
      return await work();
    } catch (cause) {
      await this.#open.run([{ sql: "ROLLBACK TO SAVEPOINT examined" }]).catch(() => undefined);
      throw cause;
    }
  }

  async #all(some: readonly ToExamine[]): Promise<readonly Examined[]> {
    const words = some.map(({ lost }) => this.#otherSession(lost) ?? unknownWord(lost));
    const asked = some.flatMap(({ lost }, at) => (words[at] === null ? statementsOf(lost) : []));
    const plans = asked.length === 0 ? [] : await this.#open.run(asked.map(redo.explain));
    const texts = plans.map(({ rows }) => rows[0]?.[0] ?? "[]");
    await this.#learnTables(texts);
    const planned = texts.map((text) => readPlan(text, (table) => this.#facts.get(table) ?? null));
    await this.#learnFunctions(planned);
    const rows = planned.map((each) => (each.kind === "write" ? rowOf(each, this.#factsOf(each)) : null));
    const names = await this.#namesOf(rows);
    const examined: Examined[] = [];
    let from = 0;
    for (const [at, { lost, since }] of some.entries()) {
      const statements = statementsOf(lost);
      const to = from + (words[at] === null ? statements.length : 0);
      const steps = planned.slice(from, to).map((plan, n) => ({ plan, row: rows[from + n] ?? null }));
      const ownNames = names.slice(from, to).filter((name) => name !== null);
      examined.push(words[at] ?? (await this.#stepsOf(statements, steps, { since, names: ownNames })));
      from = to;
    }
    return examined;
  }

  /** A text means something else with another search_path, or as another role. */
  #otherSession({ contents }: LostWrite): Examined | null {
    if (contents?.form !== "wire") return null;
    const names = Object.keys(this.#session).filter(
      (name) => this.#session[name] !== contents.settings[name],
    );
    return names.length === 0 ? null : { kind: "refused", why: `session: ${names.sort().join(", ")}` };
  }

  async #stepsOf(
    statements: readonly AsSent[],
    planned: readonly { readonly plan: Planned; readonly row: redo.RowOfTable | null }[],
    { since, names }: { readonly since: string; readonly names: readonly string[] },
  ): Promise<Examined> {
    const steps: Step[] = [];
    let isSchemaUntouched = true;
    for (const [at, { plan, row }] of planned.entries()) {
      const why = plan.kind === "refused" ? plan.why : this.#unsafe(plan);
      if (why !== null || plan.kind === "refused") return { kind: "refused", why: why ?? "", statement: at };
      const statement = statements[at] as AsSent;
      if (plan.kind === "read") {
        steps.push({ statement, write: null });
        continue;
      }
      const { command, table, from, isGenerated } = plan;
      steps.push({ statement, write: { command, facts: this.#factsOf(plan), isGenerated, row } });
      for (const each of [table, ...from])
        isSchemaUntouched = isSchemaUntouched && (await this.#isUntouched(each, since));
    }
    return { kind: "steps", steps, rows: new Set(names), isSchemaUntouched };
  }

  #factsOf({ table }: Extract<Planned, { kind: "write" }>): TableFacts {
    const facts = this.#facts.get(table);
    if (facts == null) throw new Error(`nothing is known of the table ${table}`);
    return facts;
  }

  async #learnTables(plans: readonly string[]): Promise<void> {
    const names = new Set<string>();
    for (const text of plans)
      readPlan(text, (table) => {
        names.add(table);
        return this.#facts.get(table) ?? null;
      });
    const unknown = [...names].filter((name) => !this.#facts.has(name));
    for (const name of unknown) {
      const [found] = await this.#open.run([{ sql: redo.TABLE_FACTS, params: [name] }]);
      const text = found?.rows[0]?.[0];
      this.#facts.set(name, text == null ? null : (JSON.parse(text) as TableFacts));
    }
    // A plan asks for its next table only when it knows the first.
    if (unknown.length > 0) await this.#learnTables(plans);
  }

  async #isUntouched(table: string, since: string): Promise<boolean> {
    const name = `${since} ${table}`;
    const known = this.#untouched.get(name);
    if (known !== undefined) return known;
    const [found] = await this.#open.run([{ sql: redo.SCHEMA_IS_UNTOUCHED, params: [table, since] }]);
    const isUntouched = found?.rows[0]?.[0] === "t";
    this.#untouched.set(name, isUntouched);
    return isUntouched;
  }

  async #learnFunctions(planned: readonly Planned[]): Promise<void> {
    const all = new Set(planned.flatMap((each) => (each.kind === "refused" ? [] : each.functions)));
    const unknown = [...all].filter((name) => !this.#unsteady.has(name));
    if (unknown.length === 0) return;
    const [found] = await this.#open.run([{ sql: redo.UNSTEADY, params: [JSON.stringify(unknown)] }]);
    for (const name of unknown) this.#unsteady.set(name, null);
    for (const [name, isStable] of found?.rows ?? []) {
      const isKnownUnstable = this.#unsteady.get(name ?? "")?.isStable === false;
      this.#unsteady.set(name ?? "", { isStable: isStable === "true" && !isKnownUnstable });
    }
  }

  /** Why a function in the plan keeps the statement from being run again. */
  #unsafe(planned: Exclude<Planned, { kind: "refused" }>): string | null {
    for (const name of planned.functions) {
      const unsteady = this.#unsteady.get(name);
      if (unsteady == null || TIMES.includes(name)) continue;
      if (planned.kind === "read" ? unsteady.isStable : planned.isGenerated && name === "nextval") continue;
      return `${/^\w/.test(name) ? "function" : "operator"}: ${name}`;
    }
    return null;
  }

  /** Names of the rows, equal for equal keys however a statement wrote them. */
  async #namesOf(rows: readonly (redo.RowOfTable | null)[]): Promise<(string | null)[]> {
    const known = rows.filter((row) => row !== null);
    const answers = known.length === 0 ? [] : [...(await this.#open.run(known.map(redo.keyText)))];
    return rows.map((row) => row && JSON.stringify([row.table, ...(answers.shift()?.rows[0] ?? [])]));
  }
}

/** As they ran, without their results. */
export function statementsOf({ contents }: Pick<LostWrite, "contents">): readonly AsSent[] {
  return (contents?.statements ?? []).map(({ sql, params, types, binary }) => ({
    sql,
    ...(params && { params }),
    ...(types && { types }),
    ...(binary && { binary }),
  }));
}

/** Refuses a statement that is none of the four kinds. */
function unknownWord(lost: LostWrite): Examined | null {
  const statements = statementsOf(lost);
  const statement = statements.findIndex(({ sql }) => !KNOWN.test(sql) || MAY_MAKE_TABLE.test(sql));
  if (statement < 0) return null;
  const why = (FIRST_WORD.exec(statements[statement]?.sql ?? "")?.[0] ?? "unknown").toLowerCase();
  return { kind: "refused", why, statement };
}

function rowOf(
  { table, key }: Extract<Planned, { kind: "write" }>,
  facts: TableFacts,
): redo.RowOfTable | null {
  if (key === null) return null;
  const columns = facts.key.map(({ name, type }) => ({ name, type, value: key.get(name) ?? "NULL" }));
  return { table, key: columns, chosen: facts.chosen };
}
