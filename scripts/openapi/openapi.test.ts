// Goal: what docs/reference hands to makers of clients is OpenAPI 3.1 by the specification's own schema.
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runTool } from "@highwater/lab-tools/process";

const pathOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const PYTHON = pathOf("../../.venv/bin/python");

for (const name of ["openapi.json", "tracker-openapi.json"])
  test(`docs/reference/${name} is valid OpenAPI 3.1`, async () => {
    const args = [pathOf("validate.py"), pathOf(`../../docs/reference/${name}`)];
    const { code, output } = await runTool(PYTHON, args, { cwd: tmpdir() });
    assert.equal(code, 0, output);
  });
