// Goal: if a server does not speak the protocol, only the connection to it ends.
// Method: a socket sends invalid bytes, at once or instead of an answer, to each kind of connection that the store opens.
import assert from "node:assert/strict";
import { createServer, type AddressInfo, type Server } from "node:net";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { HighwaterError, type EpochId } from "@highwater/protocol";
import { CockroachServerError, PostgresClient } from "../src/postgres/client.ts";
import { keyOf, makeStore, newId } from "./postgres-cluster.ts";

const NODE = "east";
const READY = "R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x01Z\0\0\0\x05I";
const NONSENSE: Readonly<Record<string, readonly string[]>> = {
  "an authentication that does not exist": ["R\0\0\0\x08\0\0\x7f\0"],
  "an authentication without its kind": ["R\0\0\0\x04"],
  "rows that nobody asked for": [`${READY}D\0\0\0\x06\0\0`],
  "a row that ends before its columns": [READY, "D\0\0\0\x08\0\x01\0\0"],
  "a description that ends before its columns": [READY, "T\0\0\0\x06\0\x01"],
  "a message of no length": [READY, "1\0\0\0\0"],
  "an HTTP server": ["HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"],
  "an empty notice and nothing more": [READY, "N\0\0\0\x04"],
};

describe("a server that does not speak the protocol", () => {
  let server: Server;
  let script: readonly string[] = [];
  let url = "";

  before(async () => {
    server = createServer((socket) => {
      let next = 0;
      socket.on("error", () => undefined);
      socket.on("data", () => {
        const part = script[next++];
        if (part === undefined) socket.destroy();
        else socket.write(Buffer.from(part, "latin1"));
        if (next === script.length) setImmediate(() => socket.end());
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `postgresql://postgres@127.0.0.1:${String((server.address() as AddressInfo).port)}/postgres`;
  });

  after(async () => {
    await new Promise((resolve) => server.close(resolve));
  });

  for (const [name, parts] of Object.entries(NONSENSE))
    it(`${name}: what was asked fails, and the process goes on`, async () => {
      script = parts;
      const store = makeStore([{ id: NODE, region: NODE, zone: "a", url }], "strangers", {
        connectTimeoutMs: 2_000,
        callTimeoutMs: 2_000,
      });
      await assert.rejects(store.probe(NODE));
      await assert.rejects(store.lookUp(NODE, [keyOf(newId())]));
      const transaction = store.execute(NODE, {
        ...keyOf(newId()),
        ...{ digest: 7n, epoch: newId() as string as EpochId, isolation: "serializable", readOnly: false },
        ...{ statements: [{ sql: "SELECT 1" }], maxRows: 1, maxBytes: 1_000 },
      });
      await assert.rejects(transaction, (cause) => cause instanceof HighwaterError);
      await store.close();
    });

  it("a CockroachDB server is refused by its name, before any statement", async () => {
    // As the server's source has it, the version is among the first parameters.
    const status = "crdb_version\0CockroachDB CCL v25.4.5\0";
    script = [
      `${READY.slice(0, 9)}S\0\0\0${String.fromCodePoint(status.length + 4)}${status}${READY.slice(9)}`,
    ];
    const client = new PostgresClient({ connectionString: url });
    client.on("error", () => undefined);
    await assert.rejects(client.connect(), (cause: Error) => {
      assert.ok(cause instanceof CockroachServerError);
      assert.match(
        cause.message,
        /CockroachDB CCL v25\.4\.5.*never run against a CockroachDB server.*make test-cockroach/,
      );
      return true;
    });
    const store = makeStore([{ id: NODE, region: NODE, zone: "a", url }], "strangers");
    await assert.rejects(store.probe(NODE), /This is a CockroachDB server/);
    await store.close();
  });

  it("ends what waits on the connection with what was wrong", async () => {
    script = [READY, "T\0\0\0\x06\0\x01"];
    const client = new PostgresClient({ connectionString: url });
    client.on("error", () => undefined);
    await client.connect();
    await assert.rejects(client.query("SELECT 1"), /out of range|outside buffer/);
    assert.ok(client instanceof pg.Client);
  });
});
