// Goal: what transactions of the wire ran survives the region that executed them, and is brought
// back from the bytes that the client sent; what cannot be run again says why.
// Method: the whole product as real processes, and a client of the bare wire. A region is lost with
// kept commits that had not replicated.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { System } from "@highwater/lab-system";
import {
  commit,
  createTable,
  eventually,
  KEEPING,
  newId,
  post,
  put,
  putAhead,
  starve,
} from "@highwater/lab-system/testing";
import type { LostDetails, LostList, ReplayReport } from "@highwater/protocol";
import { int32, message } from "../../src/wire/frames/build.ts";
import { bind, describePortal, execute, parse, query, ServerAnswer, SYNC, WireClient } from "./client.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const [UUID, INT8] = [2950, 20];
const PREPARED = "INSERT INTO note (id, body, n) VALUES ($1, 'binary', $2)";

const int16 = (value: number): Buffer => {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
};

/** A Bind of binary parameters. `results`: their format. */
function binaryBind(values: readonly Buffer[], results = 0): Buffer {
  const parts = values.flatMap((value) => [int32(value.length), value]);
  const formats = [int16(1), int16(1)];
  return message("B", "\0\0", ...formats, int16(values.length), ...parts, int16(1), int16(results));
}

const uuidBytes = (id: string): Buffer => Buffer.from(id.replaceAll("-", ""), "hex");
const int8Bytes = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(value);
  return bytes;
};

describe("contents of transactions on the PostgreSQL wire", () => {
  let system: System;
  let client: WireClient;
  let waiting: WireClient;
  /** The lost transactions, and a row that each wrote, by what they are about. */
  const lost = new Map<string, { id: string; row: string }>();

  /** Runs a transaction with an id, and returns the value of `highwater.kept` with its answer. */
  async function lose(what: string, run: (row: string) => (Buffer | readonly Buffer[])[]): Promise<string> {
    const [id, row] = [newId(), randomUUID()];
    await client.query(`SET highwater.id = '${id}'`);
    let kept = "";
    for (const sent of run(row)) {
      client.send(...[sent].flat());
      for (const { type, bytes } of await client.until("Z")) {
        assert.notEqual(type, "E", `${what}: ${bytes.toString()}`);
        const [name, value = ""] = bytes.toString("utf8", 5).split("\0");
        if (type === "S" && name === "highwater.kept") kept = value;
      }
    }
    lost.set(what, { id, row });
    return kept;
  }

  const inBlock = (...texts: string[]): Buffer[] => ["BEGIN", ...texts, "COMMIT"].map(query);
  const insert = (row: string, body = "lost"): string =>
    `INSERT INTO note (id, body) VALUES ('${row}', '${body}')`;

  async function details(what: string): Promise<LostDetails> {
    const url = `${system.tracker(EUROPE).url}/v1/lost/${lost.get(what)?.id ?? ""}`;
    return (await (await fetch(url)).json()) as LostDetails;
  }

  before(async () => {
    system = await System.start({ env: { ...KEEPING, GATEWAY_EXPOSURE_VALUE: "EUR:1" } });
    await createTable(system, EAST);
    await system.cluster.query(EAST, "CREATE TABLE note (id uuid PRIMARY KEY, body text, n int8)");
    await system.cluster.query(EAST, "GRANT ALL ON note TO app");
    client = await WireClient.open(system.pgUrl(EAST));
    await putAhead(system, { heir: WEST, other: EUROPE });
    await starve(system, WEST);
    await client.query("SET highwater.ack = 'commit'");
    await client.query("SET highwater.keep = 'on'");

    const on = async (what: string, run: Parameters<typeof lose>[1]): Promise<void> => {
      assert.equal(await lose(what, run), "on", what);
    };
    await on("simple", (row) => [
      query(`INSERT INTO note (id, body) VALUES ('${row}', 'it''s') RETURNING body, n`),
    ]);
    await on("block", (row) => [
      query("BEGIN"),
      [parse("kept", "INSERT INTO note VALUES ($1, $2, $3)"), message("D", "Skept\0"), SYNC],
      [bind("", "kept", [row, "block", "7"]), execute(""), SYNC],
      query(`UPDATE note SET n = n + 1 WHERE id = '${row}' RETURNING n`),
      query(`SELECT body FROM note WHERE id = '${row}'`),
      [parse("", "COMMIT"), bind("", ""), describePortal(""), execute(""), SYNC],
    ]);
    await on("binary", (row) => [
      [
        parse("", PREPARED, [UUID, INT8]),
        binaryBind([uuidBytes(row), int8Bytes(9_007_199_254_740_993n)]),
        describePortal(""),
        execute(""),
        SYNC,
      ],
    ]);
    await on("several_statements", (row) => inBlock(`${insert(row)}; ${insert(randomUUID())}`));
    await on("copy", (row) => [
      ...inBlock(insert(row)).slice(0, 2),
      query(`COPY (SELECT 1) TO STDOUT`),
      query("COMMIT"),
    ]);
    await on("row_limit", (row) => [
      ...inBlock(insert(row)).slice(0, 2),
      [
        parse("", "SELECT id FROM note"),
        bind("", ""),
        describePortal(""),
        message("E", "\0", int32(1)),
        SYNC,
      ],
      query("COMMIT"),
    ]);
    await on("binary_result", (row) => [
      [
        parse("", `${PREPARED} RETURNING n`, [UUID, INT8]),
        binaryBind([uuidBytes(row), int8Bytes(1n)], 1),
        describePortal(""),
        execute(""),
        SYNC,
      ],
    ]);
    await on("undescribed_result", (row) => [[parse("", insert(row)), bind("", ""), execute(""), SYNC]]);
    await on("savepoint", (row) =>
      inBlock("SAVEPOINT a", insert(row), "ROLLBACK TO SAVEPOINT a", insert(row)),
    );
    // Sent at once: the answer to the first leaves while the second one's is held.
    const pipelined = ["pipelined 1", "pipelined 2"].flatMap((what) => {
      const [id, row] = [newId(), randomUUID()];
      lost.set(what, { id, row });
      return [`SET highwater.id = '${id}'`, insert(row, what)].map(query);
    });
    client.send(...pipelined);
    for (const _ of pipelined) assert.equal(new ServerAnswer(await client.until("Z")).code, "");
    await client.query("SET search_path = pg_temp, public");
    await on("session: search_path", (row) => [query(insert(row))]);
    await client.query("RESET search_path");

    assert.equal(await lose("too large", (row) => inBlock(insert(row, "x".repeat(70_000)))), "off");
    assert.equal(
      await lose("off", (row) => inBlock("SET LOCAL highwater.keep = 'off'", insert(row))),
      "off",
      "the answer of the transaction before it does not stand",
    );
    assert.equal(
      await lose("a text that commits", (row) => [
        query("BEGIN"),
        query("SELECT 1; ROLLBACK; BEGIN"),
        query(insert(row)),
        query("COMMIT"),
      ]),
      "off",
    );

    // A value that does not fit any more at the COMMIT, through a gateway that survives.
    waiting = await WireClient.open(system.pgUrl(EUROPE));
    const [id, row] = [newId(), randomUUID()];
    lost.set("held", { id, row });
    for (const text of [
      "SET highwater.ack = 'commit'",
      "SET highwater.keep = 'on'",
      `SET highwater.id = '${id}'`,
      "BEGIN",
      insert(row),
      "SET LOCAL highwater.at_risk = '50 EUR'",
    ])
      assert.equal((await waiting.query(text)).code, "", text);
    waiting.send(query("COMMIT"));

    await eventually("the tracker of eu-west has the contents", async () => {
      const metrics = await (await fetch(`${system.tracker(EUROPE).url}/metrics`)).text();
      return /^highwater_contents_transactions 13$/m.test(metrics);
    });
    await system.killRegion(EAST);
    await system.cluster.promote(WEST);
    await commit(system.gateway(WEST).url, [put("after")], { ack: "durable" });
    await eventually("the losses are listed", async () => {
      const list = (await (await fetch(`${system.tracker(EUROPE).url}/v1/lost`)).json()) as LostList;
      return list.lost.length >= lost.size;
    });
  });

  after(() => system.close());

  it("are what the client sent, with the session's isolation and a digest of its answer", async () => {
    const { row = "" } = lost.get("block") ?? {};
    const { kept, answered, contents } = await details("block");
    assert.deepEqual([answered, contents], ["yes", "kept"]);
    assert.deepEqual([kept?.form, kept?.isolation], ["wire", "read committed"]);
    assert.deepEqual(
      kept?.statements.map(({ sql, params, result }) => [sql, params, result?.command, result?.rowCount]),
      [
        ["INSERT INTO note VALUES ($1, $2, $3)", [row, "block", "7"], "INSERT", 1],
        [`UPDATE note SET n = n + 1 WHERE id = '${row}' RETURNING n`, undefined, "UPDATE", 1],
        [`SELECT body FROM note WHERE id = '${row}'`, undefined, "SELECT", 1],
      ],
    );
    assert.match(kept?.digest ?? "", /^[0-9a-f]{64}$/);
    const binary = (await details("binary")).kept?.statements[0];
    assert.deepEqual(
      [binary?.types, binary?.binary],
      [
        [UUID, INT8],
        [0, 1],
      ],
    );
    for (const what of ["too large", "off", "a text that commits"])
      assert.equal((await details(what)).contents, "not_kept", what);
  });

  it("are left to a client whose error asks it to run its transaction again", async () => {
    const ended = new ServerAnswer(await waiting.until("E"));
    assert.deepEqual([ended.code, ended.tags], ["40001", []]);
    assert.match(ended.error, /run it again under a new id/);
    const { kept, answered } = await details("held");
    assert.deepEqual([answered, kept?.ack, kept?.level], ["no", "durable", "region"]);
  });

  it("are brought back, or are unrecoverable with the reason", async () => {
    const { status, body } = await post<ReplayReport>(`${system.gateway(WEST).url}/v1/lost/replay`, {
      dryRun: false,
      independent: "all",
    });
    assert.equal(status, 200, JSON.stringify(body));
    const endOf = (what: string): string[] => {
      const found = body.transactions.find(({ id }) => id === lost.get(what)?.id);
      return [found?.outcome ?? "", found?.kind ?? found?.reason ?? ""];
    };
    for (const what of ["simple", "block", "binary", "pipelined 1", "pipelined 2"])
      assert.deepEqual(endOf(what), ["replayed", ""], what);
    for (const what of [
      "several_statements",
      "copy",
      "row_limit",
      "binary_result",
      "undescribed_result",
      "savepoint",
      "session: search_path",
    ])
      assert.deepEqual(endOf(what), ["unrecoverable", what]);
    for (const what of ["too large", "off", "a text that commits"])
      assert.deepEqual(endOf(what), ["unrecoverable", "not_kept"], what);
    assert.deepEqual(endOf("held"), ["unrecoverable", "unanswered"]);
    const rows = await system.cluster.query(WEST, "SELECT id, body, n::text FROM note ORDER BY body");
    const rowOf = (what: string): string | undefined => lost.get(what)?.row;
    assert.deepEqual(rows, [
      { id: rowOf("binary"), body: "binary", n: "9007199254740993" },
      { id: rowOf("block"), body: "block", n: "8" },
      { id: rowOf("simple"), body: "it's", n: null },
      { id: rowOf("pipelined 1"), body: "pipelined 1", n: null },
      { id: rowOf("pipelined 2"), body: "pipelined 2", n: null },
    ]);
    const again = await WireClient.open(system.pgUrl(WEST));
    await again.query(`SET highwater.id = '${lost.get("simple")?.id ?? ""}'`);
    const { code, error } = await again.query(insert(randomUUID()));
    assert.equal(code, "23505");
    assert.match(error, /was brought back/);
    again.end();
  });
});
