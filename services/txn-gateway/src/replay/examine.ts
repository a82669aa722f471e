// Examines lost transactions before any of them runs: which rows each one writes, and why it cannot
// be run again. Asks the database for plans, with the rights of the transaction's role; runs nothing.
import { HighwaterError, type Statement } from "@highwater/protocol";
import { type OpenTransaction, redo } from "@highwater/store";
import { type LostWrite } from "./gather.ts";
import { type Planned, readPlan, type TableFacts, TIMES } from "./plan.ts";

export interface Step {
  readonly statement: Statement;
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

const READ = /^[\s;]*select\b/i;
const WRITE = /^[\s;]*(?:insert|update|delete)\b/i;
const FIRST_WORD = /[a-z]+/i;

type Run = Pick<OpenTransaction, "run">;

/** `since`: the epoch that ended the transaction's own. In a transaction that only reads. */
export class Examiner {
  readonly #open: Run;
  readonly #facts = new Map<string, TableFacts | null>();
  readonly #untouched = new Map<string, boolean>();
  readonly #unsteady = new Map<string, { readonly isStable: boolean } | null>();

  constructor(open: Run) {
    this.#open = open;
  }

  static async in(open: Run): Promise<Examiner> {
    await open.run(redo.EXPLAIN_SETTINGS);
    return new Examiner(open);
  }

  async examine({ contents }: LostWrite, since: string): Promise<Examined> {
    const statements = contents?.statements ?? [];
    for (const [statement, { sql }] of statements.entries())
      if (!READ.test(sql) && !WRITE.test(sql))
        return { kind: "refused", why: (FIRST_WORD.exec(sql)?.[0] ?? "unknown").toLowerCase(), statement };
    await this.#open.run([{ sql: "SAVEPOINT examined" }]);
    try {
      const found = await this.#steps(statements, since);
      await this.#open.run([{ sql: "RELEASE SAVEPOINT examined" }]);
      return found;
    } catch (cause) {
      if (!(cause instanceof HighwaterError) || cause.details.sqlstate === undefined) throw cause;
      await this.#open.run([{ sql: "ROLLBACK TO SAVEPOINT examined" }]);
      return { kind: "refused", why: `not_planned: ${cause.message}` };
    }
  }

  async #steps(statements: readonly Statement[], since: string): Promise<Examined> {
    const plans = await this.#open.run(statements.map(redo.explain));
    const texts = plans.map(({ rows }) => rows[0]?.[0] ?? "[]");
    await this.#learnTables(texts);
    const steps: Step[] = [];
    const rows = new Set<string>();
    let isSchemaUntouched = true;
    for (const [at, text] of texts.entries()) {
      const statement = statements[at] as Statement;
      const planned = readPlan(text, (table) => this.#facts.get(table) ?? null);
      const why = planned.kind === "refused" ? planned.why : await this.#unsafe(planned);
      if (why !== null || planned.kind === "refused")
        return { kind: "refused", why: why ?? "unknown", statement: at };
      if (planned.kind === "read") {
        steps.push({ statement, write: null });
        continue;
      }
      const { command, table, isGenerated } = planned;
      const facts = this.#facts.get(table) as TableFacts;
      const row = rowOf(planned, facts);
      steps.push({ statement, write: { command, facts, isGenerated, row } });
      if (row !== null) rows.add(await this.#nameOf(row));
      isSchemaUntouched &&= await this.#isUntouched(table, since);
    }
    return { kind: "steps", steps, rows, isSchemaUntouched };
  }

  async #learnTables(plans: readonly string[]): Promise<void> {
    const names = new Set<string>();
    for (const text of plans)
      readPlan(text, (table) => {
        names.add(table);
        return null;
      });
    for (const name of names) {
      if (this.#facts.has(name)) continue;
      const [found] = await this.#open.run([{ sql: redo.TABLE_FACTS, params: [name] }]);
      const text = found?.rows[0]?.[0];
      this.#facts.set(name, text == null ? null : (JSON.parse(text) as TableFacts));
    }
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

  /** Why a function in the plan keeps the statement from being run again. */
  async #unsafe(planned: Exclude<Planned, { kind: "refused" }>): Promise<string | null> {
    const { functions } = planned;
    const unknown = functions.filter((name) => !this.#unsteady.has(name));
    if (unknown.length > 0) {
      const [found] = await this.#open.run([{ sql: redo.UNSTEADY, params: [JSON.stringify(unknown)] }]);
      for (const name of unknown) this.#unsteady.set(name, null);
      for (const [name, isStable] of found?.rows ?? []) {
        const isKnownUnstable = this.#unsteady.get(name ?? "")?.isStable === false;
        this.#unsteady.set(name ?? "", { isStable: isStable === "true" && !isKnownUnstable });
      }
    }
    for (const name of functions) {
      const unsteady = this.#unsteady.get(name);
      if (unsteady == null || TIMES.includes(name)) continue;
      if (planned.kind === "read" ? unsteady.isStable : planned.isGenerated && name === "nextval") continue;
      return `function: ${name}`;
    }
    return null;
  }

  async #nameOf(row: redo.RowOfTable): Promise<string> {
    const [found] = await this.#open.run([redo.keyText(row)]);
    return JSON.stringify([row.table, ...(found?.rows[0] ?? [])]);
  }
}

function rowOf(
  { table, key }: Extract<Planned, { kind: "write" }>,
  facts: TableFacts,
): redo.RowOfTable | null {
  if (key === null) return null;
  const columns = facts.key.map(({ name, type }) => ({ name, type, value: key.get(name) ?? "NULL" }));
  return { table, key: columns, chosen: facts.chosen };
}
