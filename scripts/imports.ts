// The imports of the project's TypeScript files, for the rules that imports.test.ts checks. An
// import of types counts as one, and so does what import() loads later.
import { createRequire, isBuiltin } from "node:module";
import { dirname, join, relative } from "node:path";
import ts from "typescript";
import { ROOT } from "./tree.ts";

export interface Import {
  readonly from: string;
  /** As it is written. */
  readonly name: string;
  /** The project's file that it leads to. */
  readonly to?: string;
}

export interface Manifest {
  readonly name: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** What the files import. They are given by their paths from the root. */
export function importsOf(texts: ReadonlyMap<string, string>): Import[] {
  return [...texts].flatMap(([from, text]) =>
    specifiersIn(from, text).map((name) => {
      const to = name.startsWith(".") ? join(dirname(from), name) : packageFile(name);
      return to !== undefined && texts.has(to) ? { from, name, to } : { from, name };
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

/**
 * Imports that should name a package: their path leads from one package's folder into another's.
 * `folders`: of all packages.
 */
export function crossingIn(imports: readonly Import[], folders: readonly string[]): Import[] {
  const folderOf = folderFinder(folders);
  return imports.filter(
    ({ from, name, to }) => name.startsWith(".") && to !== undefined && folderOf(from) !== folderOf(to),
  );
}

function folderFinder(folders: readonly string[]): (file: string) => string | undefined {
  const longestFirst = [...folders].sort((a, b) => b.length - a.length);
  return (file) => longestFirst.find((folder) => file.startsWith(`${folder}/`));
}

/**
 * Imports of packages that the importing package's manifest does not name. knip says so as well,
 * but not of a package that the root declares, nor of one of ours. `manifests`: by folder. Files of
 * no package are knip's.
 */
export function undeclaredIn(imports: readonly Import[], manifests: ReadonlyMap<string, Manifest>): Import[] {
  const folderOf = folderFinder([...manifests.keys()]);
  return imports.filter(({ from, name }) => {
    const manifest = manifests.get(folderOf(from) ?? "");
    if (manifest === undefined || name.startsWith(".") || isBuiltin(name)) return false;
    const imported = /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? "";
    const { dependencies, devDependencies, peerDependencies } = manifest;
    const declared = { ...dependencies, ...devDependencies, ...peerDependencies };
    return imported !== manifest.name && !(imported in declared) && !(`@types/${imported}` in declared);
  });
}

/**
 * For each import that lies on a circle, the files of the shortest one, beginning with the file
 * that imports.
 */
export function circlesIn(imports: readonly Import[]): string[][] {
  const next = new Map<string, Set<string>>();
  for (const { from, to } of imports)
    if (to !== undefined) next.set(from, (next.get(from) ?? new Set()).add(to));
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
