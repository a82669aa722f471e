// The fixed service gives answers that the real services could give, and the benchmark's subjects follow orders.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  BatchLine,
  decodeToken,
  MarksResponse,
  TransactionResponse,
  type TSchema,
  validate,
  VerdictsResponse,
} from "@highwater/protocol";
import { newId } from "../gateway/http-client.ts";
import { PATHS, type ServiceState } from "./protocol.ts";
import { ClientProcess, FixedService } from "./subject.ts";

let service: FixedService;

before(async () => {
  service = await FixedService.start();
});

after(() => {
  service[Symbol.dispose]();
});

async function ask(path: string, body?: unknown): Promise<string> {
  const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(`${service.url}${path}`, init);
  assert.equal(response.status, 200, path);
  return response.text();
}

function assertFits(schema: TSchema, text: string): void {
  const checked = validate(schema, JSON.parse(text));
  assert.ok(checked.ok, checked.ok ? "" : checked.faults.join("; "));
}

test("the fixed answers have the shapes of the wire", async () => {
  const [id, other] = [newId(), newId()];
  const statements = [{ sql: "SELECT 1" }];
  assertFits(TransactionResponse, await ask(PATHS.commit, { id, statements }));
  const transactions = [id, other].map((each) => ({ id: each, statements }));
  const lines = (await ask(`${PATHS.commit}/batch`, { transactions })).trimEnd().split("\n");
  assert.equal(lines.length, 2);
  for (const line of lines) assertFits(BatchLine, line);
  assertFits(MarksResponse, await ask("/v1/durability/marks"));
  const tokens = JSON.parse(await ask(`${PATHS.tokens}?count=3`)) as string[];
  assert.equal(new Set(tokens.map((token) => decodeToken(token)?.offset)).size, 3);
  assertFits(VerdictsResponse, await ask("/v1/durability/verdicts", { tokens }));
});

for (const way of ["bare", "sdk", "unshared"] as const)
  test(`the TypeScript subject commits, and has its promises kept: ${way}`, async () => {
    const subject = new ClientProcess("typescript", way);
    try {
      const { url } = service;
      const { committed, conflicts, cpuMs } = await subject.ask({
        kind: "commit",
        url,
        seconds: 0.1,
        concurrency: 4,
      });
      assert.ok(committed > 0 && conflicts === 0 && cpuMs > 0);
      const { bytesEach } = await subject.ask({ kind: "pend", url, count: 50 });
      assert.ok(Number.isFinite(bytesEach));
      const { questions } = JSON.parse(await ask(PATHS.state)) as ServiceState;
      const { elapsedMs } = await subject.ask({ kind: "settle", url });
      assert.ok(elapsedMs > 0);
      assert.equal((JSON.parse(await ask(PATHS.state)) as ServiceState).questions, questions);
    } finally {
      subject.end();
    }
  });
