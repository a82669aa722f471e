// The statement language of the memory store, enough for tests to write, read, fail and wait:
//   put KEY VALUE    get KEY    fail [SQLSTATE]    slow
// Blanks separate words; `$1` and so on stand for parameters. `slow` holds its transaction open
// until a test finishes or terminates it.
import { HighwaterError, type Statement, type StatementResult, type TxnId } from "@highwater/protocol";
import { type Change } from "./history.ts";

type Parsed =
  | { readonly verb: "put"; readonly key: string; readonly value: string }
  | { readonly verb: "get"; readonly key: string }
  | { readonly verb: "fail"; readonly sqlstate: string }
  | { readonly verb: "slow" };

const SYNTAX_ERROR = "42601";
const CONSTRAINT_VIOLATION = "23505";
const READ_ONLY = "25006";
const TEXT_OID = 25;

function parse(statement: Statement): Parsed | null {
  const params = statement.params ?? [];
  const words = statement.sql
    .trim()
    .split(/\s+/)
    .map((word) => {
      const parameter = /^\$([1-9][0-9]*)$/.exec(word)?.[1];
      return parameter === undefined ? word : String(params[Number(parameter) - 1] ?? "");
    });
  const [verb, first, second] = words;
  if (verb === "put" && first !== undefined && second !== undefined)
    return { verb, key: first, value: second };
  if (verb === "get" && first !== undefined) return { verb, key: first };
  if (verb === "fail") return { verb, sqlstate: first ?? CONSTRAINT_VIOLATION };
  return verb === "slow" ? { verb } : null;
}

export function isSlow(statements: readonly Statement[]): boolean {
  return statements.some((statement) => parse(statement)?.verb === "slow");
}

/**
 * Of an open transaction, before anything is sent: as another store refuses what would end the
 * transaction.
 */
export function refuseUnknown(statements: readonly Statement[], transactionId: TxnId): void {
  const statement = statements.findIndex((each) => parse(each) === null);
  if (statement >= 0)
    throw new HighwaterError("statement_failed", { sqlstate: SYNTAX_ERROR, statement, transactionId });
}

/**
 * What the statements would do to the rows, and what they answer. Throws HighwaterError like a
 * database would refuse them.
 */
export function run(
  rows: ReadonlyMap<string, string>,
  spec: { readonly id: TxnId; readonly statements: readonly Statement[]; readonly readOnly: boolean },
): { changes: Change[]; results: StatementResult[] } {
  const changes: Change[] = [];
  const written = new Map<string, string>();
  const results = spec.statements.map((statement, index): StatementResult => {
    const refuse = (sqlstate: string): never => {
      const code = sqlstate.startsWith("23") ? "constraint_violation" : "statement_failed";
      throw new HighwaterError(code, { sqlstate, statement: index, transactionId: spec.id });
    };
    const parsed = parse(statement) ?? refuse(SYNTAX_ERROR);
    switch (parsed.verb) {
      case "put":
        if (spec.readOnly) refuse(READ_ONLY);
        written.set(parsed.key, parsed.value);
        changes.push({ kind: "put", key: parsed.key, value: parsed.value });
        return { command: "PUT", rowCount: 1, fields: [], rows: [] };
      case "get": {
        const value = written.get(parsed.key) ?? rows.get(parsed.key);
        const found = value === undefined ? [] : [[value]];
        return {
          command: "GET",
          rowCount: found.length,
          fields: [{ name: "value", oid: TEXT_OID }],
          rows: found,
        };
      }
      case "fail":
        return refuse(parsed.sqlstate);
      case "slow":
        return { command: "SLOW", rowCount: 0, fields: [], rows: [] };
    }
  });
  return { changes, results };
}
