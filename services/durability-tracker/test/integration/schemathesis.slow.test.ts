// Goal: a tracker answers every request as the OpenAPI document says, and never with an internal fault.
// Method: schemathesis makes up requests from the document, valid and invalid ones, and sends them with an API key to the real
// services over a real primary. Rerun with SCHEMATHESIS_OUTPUT=1 to see all that it says.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, it } from "node:test";
import { fileURLToPath } from "node:url";
import { System } from "@highwater/lab-system";
import { makeUuidV7 } from "@highwater/protocol";
import { eventually, type Ran, runTool } from "@highwater/lab-tools/process";

const FOLDER = fileURLToPath(new URL("../schemathesis/", import.meta.url));
const DOCUMENT_FILE = fileURLToPath(
  new URL("../../../../docs/reference/tracker-openapi.json", import.meta.url),
);
const BIN = fileURLToPath(new URL("../../../../.venv/bin/", import.meta.url));
const REGION = "us-east";
/** No process listens there. */
const HOOK = "http://127.0.0.1:9/highwater";
/** Of what is printed, the end: there is the summary. */
const SHOWN_CHARS = 20_000;

let system: System;
let url: string;
let key: string;

function run(command: string, args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ran> {
  return runTool(command, args, { cwd: system.cluster.dir, ...(env !== undefined && { env }) });
}

before(async () => {
  system = await System.start({
    cluster: { nodes: [{ id: "a", region: REGION }] },
    levels: { disk: { primary: true }, region: { regions: "all" } },
    env: {
      ...{ GATEWAY_AUTH: "keys", TRACKER_AUTH: "keys", HIGHWATER_INTERNAL_SECRET: "a secret of this test" },
      ...{ TRACKER_WEBHOOK_ALLOW: "127.0.0.1", TRACKER_WEBHOOK_ENDPOINTS: "1000" },
      // No answer may be a 5xx, on a busy machine neither.
      TRACKER_CALL_TIMEOUT_MS: "30000",
    },
  });
  url = system.tracker(REGION).url;
  key = await system.createKey({ name: "schemathesis", scopes: ["read", "write", "webhooks", "admin"] });
  // A tracker opens the queue of webhooks a little after it has begun to serve.
  await eventually("the queue is open", async () => {
    const answer = await fetch(`${url}/v1/webhooks`, { headers: { authorization: `Bearer ${key}` } });
    await answer.arrayBuffer();
    return answer.ok;
  });
});

after(() => system.close());

async function post(address: string, body?: unknown): Promise<Readonly<Record<string, string>>> {
  const response = await fetch(address, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = (await response.json()) as Record<string, string>;
  assert.ok(response.ok, JSON.stringify(answer));
  return answer;
}

interface Entry {
  readonly request: { readonly method: string; readonly url: string };
  readonly response: { readonly status: number };
}

/** `GET /v1/webhooks/{id}/secret 200`. */
function kindOf({ request, response }: Entry): string {
  const { pathname } = new URL(request.url);
  const path = pathname.replace(/^\/v1\/webhooks\/[^/]+/, "/v1/webhooks/{id}");
  return `${request.method} ${path.replace(/\/deliveries\/[^/]+/, "/deliveries/{delivery}")} ${String(response.status)}`;
}

it("the tracker's document is what the live tracker answers by", async () => {
  const id = makeUuidV7(Date.now(), crypto.getRandomValues(new Uint8Array(10)));
  const { token = "" } = await post(`${system.gateway(REGION).url}/v1/transactions`, {
    ...{ id, statements: [{ sql: "CREATE TABLE t (id int)" }] },
  });
  const { id: webhook = "" } = await post(`${url}/v1/webhooks`, { url: HOOK, events: ["transaction.lost"] });
  const { id: delivery = "" } = await post(`${url}/v1/webhooks/${webhook}/test`);
  const har = join(system.cluster.dir, "requests.har");
  const { code, output } = await run(
    join(BIN, "st"),
    [
      ...["--no-color", "--config-file", join(FOLDER, "schemathesis.toml")],
      ...["run", DOCUMENT_FILE, "--report", "har", "--report-har-path", har],
    ],
    {
      ...{ HIGHWATER_URL: url, HIGHWATER_KEY: key, HIGHWATER_TOKEN: token, HIGHWATER_HOOK: HOOK },
      ...{ HIGHWATER_WEBHOOK: webhook, HIGHWATER_DELIVERY: delivery },
      ...{ PYTHONPATH: FOLDER, PYTHONDONTWRITEBYTECODE: "1" },
    },
  );
  assert.equal(code, 0, output.slice(-SHOWN_CHARS));
  // That nothing was found counts only where something was looked at.
  const { log } = JSON.parse(await readFile(har, "utf8")) as { log: { entries: Entry[] } };
  const kinds = new Set(log.entries.map(kindOf));
  for (const kind of [
    "GET /v1/durability/marks 200",
    "GET /v1/durability/marks 401",
    "GET /v1/durability/events 200",
    "GET /v1/durability/events 400",
    "POST /v1/durability/verdicts 200",
    "POST /v1/durability/verdicts 400",
    "POST /v1/durability/failover-preview 200",
    "POST /internal/announcements 403",
    "POST /v1/webhooks 201",
    "POST /v1/webhooks 400",
    "GET /v1/webhooks/{id} 200",
    "GET /v1/webhooks/{id} 404",
    "DELETE /v1/webhooks/{id} 404",
  ])
    assert.ok(kinds.has(kind), `${kind} is not among ${[...kinds].sort().join(", ")}`);
  assert.deepEqual(
    [...kinds].filter((kind) => / 5[0-9]{2}$/.test(kind)),
    [],
  );
});
