import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PreparedStatements } from "./prepared.ts";

/** A session as the server sees it: names that it has parsed and not closed. */
class Server {
  readonly known = new Map<string, string>();
  readonly prepared = new PreparedStatements();

  /** Runs one batch; statements from `failAt` on are never parsed. */
  batch(statements: readonly string[], failAt = statements.length): void {
    this.send(statements, failAt)();
  }

  /** Sends one batch; what it returns is its turn. */
  send(statements: readonly string[], failAt = statements.length): () => void {
    const closed = this.prepared.takeEvicted();
    const wanted = statements.map((sql) => ({ sql, ...this.prepared.use(sql) }));
    let unparsed = wanted.filter(({ isNew }) => isNew).length;
    return () => {
      for (const name of closed) this.known.delete(name);
      for (const [index, { sql, name, isNew }] of wanted.entries()) {
        if (index >= failAt) break;
        if (isNew) {
          assert.ok(name === "" || !this.known.has(name), `${name} is parsed twice`);
          this.known.set(name, sql);
          unparsed--;
          this.prepared.confirmOne();
        }
        assert.equal(this.known.get(name), sql, "the server has this statement under this name");
      }
      this.prepared.dropUnconfirmed(unparsed);
    };
  }
}

describe("prepared statements", () => {
  it("parses a text once", () => {
    const prepared = new PreparedStatements();
    const first = prepared.use("a");
    assert.equal(first.isNew, true);
    assert.deepEqual(prepared.use("a"), { name: first.name, isNew: false });
    assert.notEqual(prepared.use("b").name, first.name);
  });

  it("parses again what an error has kept from being parsed", () => {
    const server = new Server();
    server.batch(["a", "b", "c"], 1);
    assert.equal(server.prepared.use("a").isNew, false);
    assert.equal(server.prepared.use("b").isNew, true);
    assert.equal(server.prepared.use("c").isNew, true);
  });

  it("keeps apart what several batches in one write have new", () => {
    const server = new Server();
    for (const failAt of [1, 2]) {
      const turns = [server.send(["a", "b"], failAt), server.send(["a", "c", "d"]), server.send(["e"], 0)];
      for (const turn of turns) turn();
    }
    assert.deepEqual([...server.known.values()].sort(), ["a", "b", "c", "d"]);
    for (const kept of ["a", "b", "c", "d"]) assert.equal(server.prepared.use(kept).isNew, false, kept);
    assert.equal(server.prepared.use("e").isNew, true);
  });

  it("keeps a bounded number on the server, however many texts there are", () => {
    const server = new Server();
    for (let i = 0; i < 1_000; i++)
      server.batch(["begin", `statement ${String(i)}`, "commit"], i % 7 === 0 ? 1 : 3);
    assert.ok(server.known.size <= 260, String(server.known.size));
    assert.equal(server.prepared.use("begin").isNew, false, "what is used often stays");
  });

  it("survives a batch of more texts than it keeps", () => {
    const server = new Server();
    const many = Array.from({ length: 300 }, (_, i) => `statement ${String(i)}`);
    server.batch(many);
    server.batch(many);
    server.batch(["statement 0", "statement 299"]);
  });

  it("does not keep very long texts", () => {
    const server = new Server();
    const long = "x".repeat(20_000);
    server.batch(["a", long, "b", long]);
    assert.deepEqual(server.prepared.use(long), { name: "", isNew: true });
    assert.equal(server.prepared.use("b").isNew, false);
  });

  it("forgets everything on demand, and has the server deallocate it", () => {
    const server = new Server();
    server.batch(["a", "b"]);
    server.prepared.clear();
    server.batch(["a"]);
    assert.deepEqual([...server.known.values()], ["a"]);
  });
});
