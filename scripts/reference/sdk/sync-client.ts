// The synchronous client of the SDK for Python, made from the asynchronous one by sync_client.py.
// Ruff then takes out the imports that are left over, and formats it.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { ROOT } from "../../tree.ts";
import { readFileSync } from "node:fs";

const FOLDER = "sdk/python/src/highwater";

export function renderSyncClient(): string {
  const run = (input: string, ...args: string[]): string =>
    execFileSync(join(ROOT, ".venv", "bin", "python"), args, { cwd: ROOT, encoding: "utf8", input });
  const made = run(
    readFileSync(join(ROOT, FOLDER, "aio.py"), "utf8"),
    join(import.meta.dirname, "sync_client.py"),
  );
  const name = ["--stdin-filename", `${FOLDER}/client.py`, "-"];
  const linted = run(made, "-m", "ruff", "check", "--quiet", "--fix", "--select", "F401,I", ...name);
  return run(linted, "-m", "ruff", "format", "--quiet", ...name);
}
