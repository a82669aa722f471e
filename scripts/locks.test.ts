// Goal: a compact lock says what the original says. Method: small locks as npm and pip-compile write them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { compactLock } from "./locks.ts";

test("each package of package-lock.json has a line of its own, and nothing changes", () => {
  const lock = {
    name: "a",
    packages: { "": { name: "a" }, "node_modules/b": { version: "1.0.0", dev: true } },
  };
  const compact = compactLock("x/package-lock.json", JSON.stringify(lock, null, 2));
  assert.deepEqual(JSON.parse(compact), lock);
  assert.ok(compact.includes('\n  "node_modules/b": {"version":"1.0.0","dev":true}\n'), compact);
});

test("each requirement has a line of its own, with all its hashes and its marker", () => {
  const compact = compactLock(
    "requirements-dev.txt",
    "# Made by: pip-compile\n\na==1 ; sys_platform == 'linux' \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n    # via b\n\nb==2 \\\n    --hash=sha256:3\n    # via\n    #   -r requirements.in\n",
  );
  assert.equal(
    compact,
    "# Made by: pip-compile\na==1 ; sys_platform == 'linux' --hash=sha256:1 --hash=sha256:2\nb==2 --hash=sha256:3\n",
  );
  assert.equal(compactLock("requirements-dev.txt", compact), compact);
});
