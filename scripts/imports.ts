// The imports between the project's TypeScript files, for the rules that imports.test.ts checks. An import of types counts as one, and so
// does what import() loads later.
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import ts from "typescript";
import { ROOT } from "./tree.ts";

export interface Import {
  readonly from: string;
  readonly to: string;
  readonly isRelative: boolean;
}

/** What the files import of each other. They are given by their paths from the root. */
export function importsOf(texts: ReadonlyMap<string, string>): Import[] {
  return [...texts].flatMap(([from, text]) =>
    specifiersIn(from, text).flatMap((name) => {
      const isRelative = name.startsWith(".");
      const to = isRelative ? join(dirname(from), name) : packageFile(name);
      return to !== undefined && texts.has(to) ? [{ from, to, isRelative }] : [];
    }),
  );
}

const require = createRequire(join(ROOT, "package.json"));

/** Follows the exports of a package of this repository to its source. */
function packageFile(name: string): string | undefined {
  return name.startsWith("@highwater/") ? relative(ROOT, require.resolve(name)) : undefined;
}

function specifiersIn(path: string, text: string): string[] {
  const found: string[] = [];
  const take = (node: ts.Node | undefined): void => {
    if (node !== undefined && ts.isStringLiteralLike(node)) found.push(node.text);
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) take(node.moduleSpecifier);
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) take(node.argument.literal);
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword)
      take(node.arguments[0]);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, text, ts.ScriptTarget.ESNext));
  return found;
}

/** Imports that should name a package: their path leads from one package's folder into another's. `folders`: of all packages. */
export function crossingIn(imports: readonly Import[], folders: readonly string[]): Import[] {
  const longestFirst = [...folders].sort((a, b) => b.length - a.length);
  const packageOf = (file: string): string | undefined =>
    longestFirst.find((folder) => file.startsWith(`${folder}/`));
  return imports.filter(({ from, to, isRelative }) => isRelative && packageOf(from) !== packageOf(to));
}

/** For each import that lies on a circle, the files of the shortest one, beginning with the file that imports. */
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
