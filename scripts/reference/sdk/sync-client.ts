// Synchronous classes of the SDK for Python, made from the asynchronous ones by sync_client.py.
// Ruff then takes out the imports that are left over, and formats it.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { ROOT } from "../../tree.ts";
import { readFileSync } from "node:fs";

const FOLDER = "sdk/python/src/highwater";

/** Of a file of asynchronous classes; the name is the one of the file that is made. */
export function renderSync(from: string, name: string): string {
  const run = (input: string, ...args: string[]): string =>
    execFileSync(join(ROOT, ".venv", "bin", "python"), args, { cwd: ROOT, encoding: "utf8", input });
  const made = run(
    readFileSync(join(ROOT, FOLDER, from), "utf8"),
    join(import.meta.dirname, "sync_client.py"),
    from,
  );
  const file = ["--stdin-filename", `${FOLDER}/${name}`, "-"];
  const linted = run(made, "-m", "ruff", "check", "--quiet", "--fix", "--select", "F401,I", ...file);
  return run(linted, "-m", "ruff", "format", "--quiet", ...file);
}
