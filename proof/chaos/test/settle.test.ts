// Goal: at the end of a run the workload asks again about every open id before it gives up, however
// many there are. Method: a service that answers `active` for each id at first and `aborted`
// afterwards, and a time limit that has already passed.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Journal } from "../src/workload/journal.ts";
import { readRecorded } from "../src/workload/recorded.ts";
import { resolveUnknowns } from "../src/workload/settle.ts";

const OPEN = 40;

test("each open id is asked about again before it is given up", async () => {
  const dir = await mkdtemp(join(tmpdir(), "highwater-settle-"));
  const looked = new Set<string>();
  const server = createServer((request, response) => {
    const id = new URL(request.url ?? "", "http://here").pathname.split("/").at(-1) ?? "";
    const state = looked.has(id) ? "aborted" : "active";
    looked.add(id);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ id, state, marks: null }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  const journal = new Journal(dir, "workload");
  try {
    const txns = Array.from(
      { length: OPEN },
      (_, n) => `019a0000-0000-7000-8000-${String(n).padStart(12, "0")}`,
    );
    const asked = { level: "region", readOnly: false };
    await resolveUnknowns(
      {
        journal,
        recorded: {
          invocations: new Map(txns.map((txn) => [txn, asked])),
          ...{ unanswered: [], unresolved: txns, tokens: new Map(), epochs: [] },
        },
        endpoints: [{ region: "us-east", gateway: url, tracker: url }],
        ...{ trackers: [], levels: ["region"], owners: [] },
      },
      0,
    );
    const lines = (await readFile(join(dir, "workload.jsonl"), "utf8")).trim().split("\n");
    const outcomes = lines.map((line) => (JSON.parse(line) as { outcome: string }).outcome);
    assert.deepEqual(
      outcomes,
      txns.map(() => "aborted"),
    );
  } finally {
    journal.close();
    server.closeAllConnections();
    server.close();
    await rm(dir, { recursive: true, force: true });
  }
});

test("a commit without a token is looked up like an unknown outcome, unless it has no receipt", async () => {
  const dir = await mkdtemp(join(tmpdir(), "highwater-recorded-"));
  const journal = new Journal(dir, "client");
  try {
    const usual = { client: "c", session: null, rerunOf: null, ack: "commit", level: "region" } as const;
    const begun = {
      ...usual,
      readOnly: false,
      isolation: "serializable",
      after: null,
      operations: [],
    } as const;
    const said = { durableAt: null, shown: null, replayed: false, error: null, position: null } as const;
    for (const [txn, outcome, more] of [
      ["unknown", "unknown", {}],
      ["without token", "committed", {}],
      ["with token", "committed", {}],
      ["no receipt", "committed", { receipt: false }],
      ["read", "committed", { readOnly: true }],
      ["resolved", "committed", {}],
    ] as const) {
      journal.invoked({ ...begun, ...more, txn });
      journal.answered({ ...said, txn, outcome });
    }
    journal.note({ kind: "token", txn: "with token", token: "t", attempt: null });
    journal.resolved({ txn: "resolved", outcome: "committed", position: null });
    assert.deepEqual((await readRecorded(dir)).unresolved, ["unknown", "without token"]);
  } finally {
    journal.close();
    await rm(dir, { recursive: true, force: true });
  }
});
