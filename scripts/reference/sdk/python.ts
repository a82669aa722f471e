// Reads the public modules of the Python SDK, by the project's own Python.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Module } from "./model.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const MAX_BYTES = 64 * 1024 * 1024;
const PYTHON = join(ROOT, ".venv", "bin", "python");

export function readPython(): Module[] {
  if (!existsSync(PYTHON)) throw new Error("there is no .venv: make setup");
  const args = [join(import.meta.dirname, "python.py"), join(ROOT, "sdk", "python", "src")];
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  const { status, stdout, stderr } = spawnSync(PYTHON, args, { encoding: "utf8", maxBuffer: MAX_BYTES, env });
  if (stderr.includes("No module named 'griffe'"))
    throw new Error("the Python environment is older than sdk/python/requirements-dev.txt: make setup");
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout) as Module[];
}
