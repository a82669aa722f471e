// Unit tests start in milliseconds and share a process by package: starting one for each file took
// longer than their tests. An entry file imports them; the results of each test still name the file
// that it stands in.
import { readFileSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * Beside the source that they test; those that start servers say so in their names. The reference
 * reads the sources of the SDKs once.
 */
const UNIT =
  /^((?:packages|services|sdk|infra|proof)\/[^/]+(?=\/src\/)|scripts\/reference)\/(?!.*\.(?:integration|slow)\.test\.)/;
/** Hooks outside all suites would run for the tests of every file in the process. */
const ROOT_HOOK = /^(?:before|after)(?:Each)?\(/m;

/**
 * The files to run: those of `files` that are no unit tests, then an entry file in `folder` for
 * each package's unit tests.
 */
export function groupUnitTests(files: readonly string[], root: string, folder: string): string[] {
  const packageOf = (file: string): string => {
    const name = UNIT.exec(relative(root, resolve(file)))?.[1];
    return name === undefined || ROOT_HOOK.test(readFileSync(file, "utf8")) ? "" : name;
  };
  const groups = Map.groupBy(files, packageOf);
  const alone = groups.get("") ?? [];
  groups.delete("");
  const entries = [...groups].map(([name, members]) => {
    const entry = join(folder, `${name.replaceAll("/", "-")}.mjs`);
    writeFileSync(entry, entryOf(name, members));
    return entry;
  });
  return [...alone, ...entries];
}

/**
 * With --test-force-exit a process ends when the tests that are known have ended; the first one
 * keeps it until all are known.
 */
function entryOf(name: string, files: readonly string[]): string {
  const imports = files.map(
    (file) => `  await import(${JSON.stringify(pathToFileURL(resolve(file)).href)});\n`,
  );
  return `import { test } from "node:test";
const { promise, resolve, reject } = Promise.withResolvers();
test(${JSON.stringify(`${name}: all ${String(files.length)} files of unit tests are loaded`)}, () => promise);
try {
${imports.join("")}  resolve();
} catch (cause) {
  reject(cause);
}
`;
}
