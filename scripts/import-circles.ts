// Circles of imports between TypeScript files. An import counts as one of types when types are all that it names: it can close a
// circle, but no code needs the other file while it loads. What import() loads later counts as a value.
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import ts from "typescript";

export const ROOT = join(import.meta.dirname, "..");

export interface Import {
  readonly from: string;
  readonly to: string;
  readonly isType: boolean;
}

/** What the files import of each other. They are given by their paths from the root. */
export function importsOf(texts: ReadonlyMap<string, string>): Import[] {
  return [...texts].flatMap(([from, text]) =>
    specifiersIn(from, text).flatMap(({ name, isType }) => {
      const to = name.startsWith(".") ? join(dirname(from), name) : packageFile(name);
      return to !== undefined && texts.has(to) ? [{ from, to, isType }] : [];
    }),
  );
}

const require = createRequire(join(ROOT, "package.json"));

/** Follows the exports of a package of this repository to its source. */
function packageFile(name: string): string | undefined {
  return name.startsWith("@highwater/") ? relative(ROOT, require.resolve(name)) : undefined;
}

function specifiersIn(path: string, text: string): { name: string; isType: boolean }[] {
  const found: { name: string; isType: boolean }[] = [];
  const take = (node: ts.Node | undefined, isType: boolean): void => {
    if (node !== undefined && ts.isStringLiteralLike(node)) found.push({ name: node.text, isType });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) take(node.moduleSpecifier, importsTypes(node.importClause));
    else if (ts.isExportDeclaration(node))
      take(node.moduleSpecifier, node.isTypeOnly || namesTypes(node.exportClause));
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
      take(node.argument.literal, true);
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword)
      take(node.arguments[0], false);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, text, ts.ScriptTarget.ESNext));
  return found;
}

function importsTypes(clause: ts.ImportClause | undefined): boolean {
  if (clause === undefined) return false;
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true;
  return clause.name === undefined && namesTypes(clause.namedBindings);
}

function namesTypes(names: ts.NamedImportBindings | ts.NamedExportBindings | undefined): boolean {
  if (names === undefined || !(ts.isNamedImports(names) || ts.isNamedExports(names))) return false;
  return names.elements.length > 0 && names.elements.every((element) => element.isTypeOnly);
}

/**
 * For each import that lies on a circle, the files of the shortest one, beginning with the file that imports. The number of such
 * imports rises with every circle that is added; the number of groups of files would fall when two groups become one.
 */
export function circlesIn(imports: readonly Import[]): string[][] {
  const next = new Map<string, Set<string>>();
  for (const { from, to } of imports) next.set(from, (next.get(from) ?? new Set()).add(to));
  return [...next].flatMap(([from, all]) =>
    [...all].flatMap((to) => {
      const path = shortestPath(next, to, from);
      return path === undefined ? [] : [[from, ...path]];
    }),
  );
}

function shortestPath(
  next: ReadonlyMap<string, ReadonlySet<string>>,
  start: string,
  end: string,
): string[] | undefined {
  const paths = new Map([[start, [start]]]);
  for (const [file, path] of paths) {
    if (file === end) return path;
    for (const other of next.get(file) ?? []) if (!paths.has(other)) paths.set(other, [...path, other]);
  }
  return undefined;
}
