import assert from "node:assert/strict";
import { test } from "node:test";
import { npmFields, withAddresses } from "./dist.ts";
import { readTree } from "./tree.ts";

const repository = "https://git.example.org/highwater";

test("links that leave a README's folder become addresses, and others stay", () => {
  const text = "[a](../../docs/a.md#b) [c](./c.md) [d](#d) [e](https://example.org/e)";
  const to = `${repository}/blob/v0.1.0`;
  assert.equal(
    withAddresses(text, "sdk/ts", { repository, version: "0.1.0" }),
    `[a](${to}/docs/a.md#b) [c](${to}/sdk/ts/c.md) [d](#d) [e](https://example.org/e)`,
  );
});

test("the address of the repository stands in one place: no manifest in the tree has its own", () => {
  assert.ok("repository" in npmFields(repository, "cli"));
  const own = [...readTree()].filter(
    ([path, text]) =>
      (path.endsWith("package.json") && /^ {2}"(?:repository|homepage|bugs)"/m.test(text)) ||
      (path.endsWith("pyproject.toml") && text.includes("[project.urls]")),
  );
  assert.deepEqual(
    own.map(([path]) => path),
    [],
  );
});
