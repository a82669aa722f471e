// Checks a service's explanations of its errors, for the test of each service.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import {
  ErrorDescription,
  ErrorList,
  ERRORS,
  ProblemBody,
  type TSchema,
  validate,
} from "@highwater/protocol";

const PAGE = readFileSync(new URL("../../../../docs/reference/errors.md", import.meta.url), "utf8");

function checked<T extends TSchema>(schema: T, value: unknown): unknown {
  const valid = validate(schema, value);
  assert.ok(valid.ok, `${JSON.stringify(valid)} of ${JSON.stringify(value)}`);
  return valid.value;
}

/** Asks without a credential, while the service has no database. */
export async function assertErrorReference(url: string): Promise<void> {
  const list = checked(ErrorList, await (await fetch(`${url}/errors`)).json()) as ErrorList;
  assert.deepEqual(
    list.errors.map(({ code }) => code),
    Object.keys(ERRORS),
  );
  for (const listed of list.errors) {
    const { type, code, status } = listed;
    const response = await fetch(url + type);
    assert.equal(response.status, 200, code);
    assert.match(response.headers.get("content-type") ?? "", /^application\/json/);
    const text = await response.text();
    const described = checked(ErrorDescription, JSON.parse(text)) as ErrorDescription;
    const { cause, fix, example } = described;
    assert.deepEqual([described.code, described.status], [code, status]);
    assert.deepEqual([example.type, example.code], [type, code]);
    const section = PAGE.split(`\n## \`${code}\`\n`)[1]?.split("\n## ")[0] ?? "";
    const [own = "{}"] = /(?<=```json\n).*(?=```)/s.exec(section) ?? [];
    assert.deepEqual({ ...listed, ...(JSON.parse(own) as object) }, example);
    assert.ok(section.startsWith(`\n**Cause.** ${cause}\n\n**Fix.** ${fix}\n`), `${code}: ${section}`);
    const head = await fetch(url + type, { method: "HEAD" });
    assert.deepEqual([head.status, await head.text()], [200, ""]);
    assert.equal(head.headers.get("content-length"), String(Buffer.byteLength(text)));
  }
  for (const path of ["tea", "__proto__", "constructor", "OVERLOADED", "overloaded%00", "..%2Fmetrics", ""]) {
    const response = await fetch(`${url}/errors/${path}`);
    assert.match(response.headers.get("content-type") ?? "", /^application\/problem\+json/);
    const problem = checked(ProblemBody, await response.json()) as { type: string };
    assert.deepEqual([response.status, problem.type], [404, "/errors/not_found"], path);
  }
  for (const path of ["/errors", "/errors/internal"]) {
    const response = await fetch(url + path, { method: "POST", body: "{}" });
    assert.deepEqual([response.status, response.headers.get("allow")], [405, "GET, HEAD"]);
    await response.body?.cancel();
  }
}
