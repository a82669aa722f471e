// Goal: an operator has a name in the audit log, also where the system has no name for the user. The
// image's test (infra/image/test) runs a command as such a user.
import assert from "node:assert/strict";
import { hostname, userInfo } from "node:os";
import { test } from "node:test";
import { operatorHere } from "./operator.ts";

test("an operator is the user and the host", () => {
  assert.equal(operatorHere(), `${userInfo().username}@${hostname()}`);
});

test("a user without an entry in /etc/passwd has a number", () => {
  const nameless = (): never => {
    throw Object.assign(new Error("A system error occurred: uv_os_get_passwd returned ENOENT"), {
      code: "ERR_SYSTEM_ERROR",
    });
  };
  assert.equal(operatorHere(nameless), `uid-${String(process.getuid?.())}@${hostname()}`);
});
