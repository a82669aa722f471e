// Goal: `highwater status` and `highwater watch` show what the services say, on a real system and
// where they refuse or break off. Method: two regions with real services; and a server that answers
// as the test wants.
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { System } from "@highwater/lab-system";
import { commit, eventually, newId, put, createTable } from "@highwater/lab-system/testing";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { highwater } from "./support.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;

describe("on a real system", () => {
  let system: System;
  let gateway: string;
  let tracker: string;

  before(async () => {
    system = await System.start({
      cluster: {
        nodes: [EAST, WEST].map((id) => ({ id, region: id })),
        roundTripMs: { "us-east/us-west": 0 },
      },
    });
    gateway = system.gateway(EAST).url;
    tracker = system.tracker(WEST).url;
    await createTable(system, EAST);
  });

  after(() => system.close());

  test("status of an id and of a token, as text and as JSON", async () => {
    const { id, token } = await commit(gateway, [put("seen")], { ack: "durable", level: "global" });
    const byId = await highwater(["status", id, "--level", "global", "--url", gateway]);
    assert.equal(byId.code, 0, byId.err);
    assert.match(byId.out, /^durable at global: it survives every failure/);
    assert.ok(byId.out.includes(token));
    const env = { HIGHWATER_TRACKERS: `${tracker}, http://127.0.0.1:1` };
    const byToken = await highwater(["status", token, "--level", "global", "--wait", "30", "--json"], {
      env,
    });
    assert.equal(byToken.code, 0, byToken.err);
    const { verdict, level, id: found } = JSON.parse(byToken.out) as Record<string, string>;
    assert.deepEqual([verdict, level, found], ["durable", "global", id]);
  });

  test("an id that no one knows, a text that is no token, a level that does not exist", async () => {
    const env = { HIGHWATER_URL: gateway, HIGHWATER_TRACKERS: tracker };
    const unknown = await highwater(["status", newId()], { env });
    assert.equal(unknown.code, 4, unknown.err);
    assert.match(unknown.out, /^unknown/);
    const garbage = await highwater(["status", "hw2_garbage"], { env });
    assert.equal(garbage.code, 1);
    assert.match(garbage.err, /invalid_token/);
    const level = await highwater(["status", newId(), "--level", "moon"], { env });
    assert.equal(level.code, 1);
    assert.match(level.err, /unknown_level/);
  });

  test("doctor finds nothing that endangers the promises of a running system", async () => {
    const { code, out } = await highwater(["doctor", system.topologyFile(EAST)]);
    assert.equal(code, 0, out);
    assert.doesNotMatch(out, /no tables of Highwater/);
  });

  test("watch shows the epoch that a restart of the primary begins", async () => {
    const ending = new AbortController();
    const lines: string[] = [];
    const watching = highwater(["watch", "--types", "epoch.started", "--after", "0.0", "--json"], {
      env: { HIGHWATER_URL: tracker },
      signal: ending.signal,
      onPrint: (text) => lines.push(text),
    });
    await system.cluster.restart(EAST);
    await eventually("the event is shown", () => lines.some((line) => /"type":"epoch\.started"/.test(line)));
    ending.abort();
    const { code, err } = await watching;
    assert.equal(code, 0, err);
    for (const line of lines) assert.equal((JSON.parse(line) as { type: string }).type, "epoch.started");
  });
});

describe("of a server that answers as the test wants", () => {
  let answer: (request: IncomingMessage, response: ServerResponse) => void = () => undefined;
  const server = createServer((request, response) => {
    answer(request, response);
  });
  let url = "";

  before(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  });

  after(() => {
    server.closeAllConnections();
    server.close();
  });

  test("the key is sent, from the variable or from its file", async () => {
    await using folder = await TemporaryFolder.make("highwater-key-");
    const file = join(folder.path, "key");
    writeFileSync(file, "hwk_from_file\n");
    const seen: (string | undefined)[] = [];
    answer = (request, response) => {
      seen.push(request.headers.authorization);
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ id: newId(), state: "lost", level: "region", marks: null }));
    };
    for (const key of ["hwk_given", `@${file}`]) {
      const env = { HIGHWATER_URL: url, HIGHWATER_API_KEY: key };
      const { code, out } = await highwater(["status", newId()], { env });
      assert.equal(code, 3);
      assert.match(out, /^lost at region: a failover discarded it/);
    }
    assert.deepEqual(seen, ["Bearer hwk_given", "Bearer hwk_from_file"]);
    const missing = { HIGHWATER_URL: url, HIGHWATER_API_KEY: "@/nowhere" };
    assert.match(
      (await highwater(["status", newId()], { env: missing })).err,
      /\/nowhere cannot be read: ENOENT/,
    );
  });

  test("a refusal says what the service said, and what to do", async () => {
    answer = (_request, response) => {
      response.statusCode = 401;
      response.end(
        JSON.stringify({ code: "unauthenticated", title: "t", detail: "No credential was sent." }),
      );
    };
    const refused = await highwater(["watch", "--tracker", url]);
    assert.equal(refused.code, 1);
    assert.match(refused.err, /unauthenticated: No credential was sent\.\nSet HIGHWATER_API_KEY/);
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const gone = `http://127.0.0.1:${String((other.address() as AddressInfo).port)}`;
    other.close();
    const closed = await highwater(["status", newId(), "--url", gone]);
    assert.equal(closed.code, 1);
    assert.match(closed.err, /http:\/\/127\.0\.0\.1:\d+ does not answer: .*ECONNREFUSED/);
    assert.equal((await highwater(["status", "x", "--tracker", "ftp://x"])).code, 2);
  });

  test("watch continues behind the last event that it has shown", async () => {
    const asked: (string | undefined)[] = [];
    answer = (request, response) => {
      asked.push(`${request.url ?? ""} ${String(request.headers["last-event-id"])}`);
      const n = asked.length;
      response.setHeader("content-type", "text/event-stream");
      if (n === 1) response.write(`id: 1.1\nevent: begin\ndata: {"missed":true}\n\n`);
      const event = {
        id: `1.${String(n + 1)}`,
        type: "epoch.started",
        at: `T${String(n)}`,
        data: { node: "a", n },
      };
      response.end(`id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    };
    const ending = new AbortController();
    const { code, out, err } = await highwater(
      ["watch", "--types", "epoch.started,promise.broken", "--tracker", url],
      {
        signal: ending.signal,
        onPrint: (text) => {
          if (text.includes("n=2")) ending.abort();
        },
      },
    );
    assert.equal(code, 0);
    assert.deepEqual(out.split("\n"), ["T1  epoch.started  node=a  n=1", "T2  epoch.started  node=a  n=2"]);
    assert.match(err, /Events before this were dropped/);
    const path = "/v1/durability/events?types=epoch.started&types=promise.broken";
    assert.deepEqual(asked, [`${path} undefined`, `${path} 1.2`]);
  });
});
