// Unit tests start in milliseconds and share a process by package: starting one for each file took longer than their tests. An entry
// file imports them; the results of each test still name the file that it stands in.
import { writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";

/** Beside the source that they test; those that start servers say so in their names. */
const UNIT = /^((?:packages|services|sdk|infra)\/[^/]+)\/src\/(?!.*\.(?:integration|slow)\.test\.ts$)/;

/** The files to run: those of `files` that are no unit tests, then an entry file in `folder` for each package's unit tests. */
export function groupUnitTests(files: readonly string[], root: string, folder: string): string[] {
  const packageOf = (file: string): string => UNIT.exec(relative(root, resolve(file)))?.[1] ?? "";
  const groups = Map.groupBy(files, packageOf);
  const alone = groups.get("") ?? [];
  groups.delete("");
  const entries = [...groups].map(([name, members]) => {
    const entry = join(folder, `${name.replaceAll("/", "-")}.mjs`);
    writeFileSync(
      entry,
      members.map((file) => `await import("${pathToFileURL(resolve(file)).href}");\n`).join(""),
    );
    return entry;
  });
  return [...alone, ...entries];
}
