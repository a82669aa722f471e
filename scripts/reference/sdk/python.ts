// Reads the public modules of the Python SDK, by the project's own Python.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Module } from "./model.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const PYTHON = join(ROOT, ".venv", "bin", "python");

export function readPython(): Module[] {
  if (!existsSync(PYTHON)) throw new Error("there is no .venv: make setup");
  const args = [join(import.meta.dirname, "python.py"), join(ROOT, "sdk", "python", "src")];
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  const output = execFileSync(PYTHON, args, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024, env });
  return JSON.parse(output) as Module[];
}
