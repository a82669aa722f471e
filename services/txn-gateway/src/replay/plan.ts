// Finds out what a statement writes, from PostgreSQL's own plan of it: EXPLAIN (VERBOSE) with its
// parameters. Only a plan of a known shape counts, and all its constants have to be there. Pure.
// (docs/decisions/0234-lost-transactions-are-brought-back.md)

/** A table as the catalogs describe it. Names are quoted where they have to be. */
export interface TableFacts {
  /** An ordinary table, neither partitioned nor inherited. */
  readonly plain: boolean;
  readonly key: readonly { readonly name: string; readonly type: string; readonly number: number }[];
  /**
   * Columns of unique indexes that have no column of the type uuid: users may choose their values.
   */
  readonly chosen: readonly string[];
  /** Such an index has an expression. */
  readonly chosenExpression: boolean;
  readonly trigger: boolean;
  /** Another table refers to it, with an action that writes. */
  readonly cascades: boolean;
  readonly references: readonly { readonly table: string; readonly on: string }[];
}

export type Planned =
  | { readonly kind: "read"; readonly functions: readonly string[] }
  | {
      readonly kind: "write";
      readonly command: "Insert" | "Update" | "Delete";
      readonly table: string;
      /** The other table from which it takes one row. */
      readonly from: readonly string[];
      readonly functions: readonly string[];
      /**
       * Constants of the key's columns as SQL; null: an insert takes one of them from a sequence.
       */
      readonly key: ReadonlyMap<string, string> | null;
      readonly isGenerated: boolean;
    }
  | { readonly kind: "refused"; readonly why: string };

interface Node {
  readonly [name: string]: unknown;
  readonly Plans?: readonly Node[];
}

const NAME = String.raw`(?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+")`;
const CONSTANT = String.raw`(?:E?'(?:[^'\\]|''|\\\\)*'(?:::[a-z_"][\w ."]*(?:\(\d+(?:,\d+)?\))?)?|-?\d+(?:\.\d+)?|true|false)`;
const EQUAL = String.raw`\(\(?(?:${NAME}\.)?(${NAME})\)?(?:::[a-z ]+)? = (${CONSTANT})\)`;
const EQUALS = new RegExp(String.raw`^(?:${EQUAL}|\(${EQUAL}(?: AND ${EQUAL})+\))$`);
const EACH_EQUAL = new RegExp(EQUAL, "g");
const IS_CONSTANT = new RegExp(`^${CONSTANT}$`);
const CALLS = new RegExp(String.raw`(${NAME})\s*\(`, "g");
const OPERATORS = /[-+*/<>=~!@#%^&|`?]+/g;
const TEXTS = /E?'(?:[^'\\]|''|\\\\)*'/g;
/** A cast to numeric(10,2) calls no function of that name. */
const SIZED_CASTS = /::[a-z_"][\w ."]*?\(\d+(?:,\s*\d+)?\)/g;
/** They give other values. If the answer had one, it differs. */
export const TIMES: readonly string[] = ["now", "transaction_timestamp"];

/** `facts`: null, if the table is not known. */
export function readPlan(text: string, factsOf: (table: string) => TableFacts | null): Planned {
  const plans = JSON.parse(text) as readonly { readonly Plan?: Node }[];
  const root = plans[0]?.Plan;
  if (plans.length !== 1 || root === undefined) return refused("rule");
  const functions = callsIn(root);
  const writes = JSON.stringify(root).includes('"ModifyTable"');
  if (!writes) return { kind: "read", functions };
  const table = tableOf(root);
  const [child, ...more] = root.Plans ?? [];
  if (table === null || child === undefined || more.length > 0 || (child.Plans ?? []).length > 0)
    return refused("several_tables");
  const command = root["Operation"];
  if (command !== "Insert" && command !== "Update" && command !== "Delete") return refused("merge");
  if (root["Conflict Resolution"] !== undefined) return refused("upsert");
  const facts = factsOf(table);
  if (facts === null || !facts.plain) return refused("no_plain_table");
  if (facts.trigger) return refused("trigger");
  if (command !== "Insert" && facts.cascades) return refused("cascade");
  if (facts.key.length === 0) return refused("no_primary_key");
  if (command === "Insert") return readInsert(root, child, { table, facts, functions, factsOf });
  const key = child["Node Type"] === "Index Scan" ? keyIn(child["Index Cond"], facts) : null;
  if (key === null || tableOf(child) !== table) return refused("not_by_primary_key");
  return { kind: "write", command, table, from: [], functions, key, isGenerated: false };
}

function readInsert(
  root: Node,
  child: Node,
  {
    table,
    facts,
    functions,
    factsOf,
  }: {
    table: string;
    facts: TableFacts;
    functions: readonly string[];
    factsOf: (table: string) => TableFacts | null;
  },
): Planned {
  const isValues = child["Node Type"] === "Result" && child["One-Time Filter"] === undefined;
  if (!isValues && !isOneRow(child, factsOf)) return refused("several_rows");
  const values = child["Output"] as readonly string[];
  // What it takes from the other row is known to be the same only if the client got all of it.
  if (!isValues && !returnsAll(root, values.length)) return refused("not_returned");
  const isGenerated = functions.includes("nextval");
  const key = facts.key.map(({ name, number }) => [name, values[number - 1] ?? ""] as const);
  const isKnown = key.every(([, value]) => IS_CONSTANT.test(value));
  if (!isKnown && !isGenerated) return refused("key_not_constant");
  const from = isValues ? [] : [tableOf(child) ?? ""];
  const write = { kind: "write", command: "Insert", table, from, functions, isGenerated } as const;
  return { ...write, key: isKnown ? new Map(key) : null };
}

/** It reads at most one row, by its primary key. */
function isOneRow(child: Node, factsOf: (table: string) => TableFacts | null): boolean {
  const table = child["Node Type"] === "Index Scan" ? tableOf(child) : null;
  const facts = table === null ? null : factsOf(table);
  return facts !== null && facts.plain && keyIn(child["Index Cond"], facts) !== null;
}

function returnsAll(root: Node, columns: number): boolean {
  const { Alias: alias, Output: output } = root;
  if (typeof alias !== "string" || !Array.isArray(output)) return false;
  const own = new RegExp(
    String.raw`^(?:${quoted(alias)}|${alias.replaceAll("$", String.raw`\$`)})\.${NAME}$`,
  );
  return new Set(output.filter((each) => own.test(String(each)))).size === columns;
}

const refused = (why: string): Planned => ({ kind: "refused", why });

function tableOf(node: Node): string | null {
  const { Schema: schema, "Relation Name": name } = node;
  return typeof schema === "string" && typeof name === "string" ? `${quoted(schema)}.${quoted(name)}` : null;
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Null unless each column of the primary key, and none else, is compared with a constant. */
function keyIn(condition: unknown, { key }: TableFacts): ReadonlyMap<string, string> | null {
  if (typeof condition !== "string" || !EQUALS.test(condition)) return null;
  const pairs = [...condition.matchAll(EACH_EQUAL)].map(
    ([, name = "", value = ""]) => [name, value] as const,
  );
  const found = new Map(pairs);
  return found.size === pairs.length && found.size === key.length && key.every(({ name }) => found.has(name))
    ? found
    : null;
}

/** Names of the functions and operators in the plan's expressions, and of what looks like one. */
function callsIn(root: Node): string[] {
  const found = new Set<string>();
  const visit = (value: unknown): void => {
    if (typeof value === "string") {
      const bare = value.replaceAll(TEXTS, "''").replaceAll(SIZED_CASTS, "::t");
      for (const [, name = ""] of bare.matchAll(CALLS))
        found.add(name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name);
      for (const [symbol] of bare.matchAll(OPERATORS)) found.add(symbol);
    } else if (Array.isArray(value)) for (const each of value) visit(each);
    else if (value !== null && typeof value === "object")
      for (const each of Object.values(value)) visit(each);
  };
  visit(root);
  return [...found];
}
