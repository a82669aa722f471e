// Goal: the comparison of two servers reports every difference except those that the contract
// allows.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { difference, isRefusedByType, isServerFault, type Played } from "./compare.ts";
import { type Frame, int16, int32, text } from "./frames.ts";
import { breaksOff, piecesOf, readScript } from "./script.ts";

const frame = (type: string, ...parts: readonly (string | Buffer)[]): Frame => ({
  type,
  body: Buffer.concat(parts.map((part) => (typeof part === "string" ? text(part) : part))),
});
const refusal = (message: string, code = "08P01"): Frame =>
  frame("E", "SERROR", `C${code}`, `M${message}`, Buffer.alloc(1));
const played = (...frames: readonly Frame[]): Played => ({ frames, end: "answered" });
const COMMIT = frame("C", "COMMIT");
const READY = frame("Z", Buffer.from("I"));
const table = (oid: number): Frame =>
  frame("T", int16(1), "a", int32(oid), int16(1), int32(23), int16(4), int32(-1), int16(0));

describe("the comparison", () => {
  it("leaves out keys, the token and the numbers of tables", () => {
    const direct = played(frame("K", int32(1, 2)), table(16_400), COMMIT, READY);
    const token = frame("S", "highwater.token", "x");
    assert.equal(
      difference(direct, played(frame("K", int32(3, 4)), table(17_000), COMMIT, token, READY)),
      null,
    );
  });

  it("keeps apart tables that differ, and tables of the server", () => {
    const one = played(table(16_400), table(16_401), table(16_400));
    assert.equal(difference(one, played(table(17_000), table(17_001), table(17_000))), null);
    assert.match(difference(one, played(table(17_000), table(17_001), table(17_001))) ?? "", /frame 2/);
    assert.match(difference(played(table(1_259)), played(table(1_260))) ?? "", /frame 0/);
  });

  for (const [what, seen] of [
    ["a frame that is missing", [COMMIT]],
    ["one too many", [COMMIT, READY, READY]],
    ["another text", [frame("C", "ROLLBACK"), READY]],
    ["another order", [READY, COMMIT]],
    ["a notice that is not the gateway's", [frame("N", "SNOTICE", "Mx", Buffer.alloc(1)), COMMIT, READY]],
  ] as const)
    it(`finds ${what}`, () => {
      assert.notEqual(difference(played(COMMIT, READY), played(...seen)), null);
    });

  it("leaves out the line that warns of a COMMIT outside a block, and of no other report", () => {
    const warned = (line: string, routine: string, code = "25P01"): Played => {
      const fields = ["VWARNING", `C${code}`, "Fxact.c", `L${line}`, `R${routine}`];
      return played(frame("N", ...fields, Buffer.alloc(1)), COMMIT, READY);
    };
    const end = "EndTransactionBlock";
    assert.equal(difference(warned("4154", end), warned("4075", end)), null);
    assert.notEqual(difference(warned("4154", end), warned("4154", end, "25000")), null);
    assert.notEqual(
      difference(warned("1", "BeginTransactionBlock"), warned("2", "BeginTransactionBlock")),
      null,
    );
    assert.notEqual(difference(warned("1", "exec_simple_query"), warned("2", "exec_simple_query")), null);
  });

  it("leaves out the description of a plan in front of an error, and no other description", () => {
    const error = frame("E", "SERROR", "C42601", "Munrecognized EXPLAIN option", Buffer.alloc(1));
    const head = (name: string): Frame =>
      frame("T", int16(1), name, int32(0), int16(0), int32(25), int16(-1), int32(-1), int16(0));
    assert.equal(difference(played(error, READY), played(head("QUERY PLAN"), error, READY)), null);
    assert.notEqual(difference(played(error, READY), played(head("a"), error, READY)), null);
    assert.notEqual(difference(played(COMMIT, READY), played(head("QUERY PLAN"), COMMIT, READY)), null);
  });

  it("finds another end", () => {
    assert.notEqual(difference(played(READY), { frames: [READY], end: "silent" }), null);
    assert.notEqual(difference(played(READY), { frames: [READY], end: "closed" }), null);
  });

  it("knows that PostgreSQL refuses a message during a COPY before it has all of it, and only that", () => {
    const refused = refusal("unexpected message type 0x51 during COPY from stdin");
    const lost = frame("E", "SFATAL", "C08P01", "Mterminating connection", Buffer.alloc(1));
    const direct: Played = { frames: [COMMIT, refused, lost], end: "closed" };
    const silent = (...shown: readonly Frame[]): Played => ({ frames: shown, end: "silent" });
    assert.equal(isRefusedByType(direct, silent(COMMIT)), true);
    const unknown: Played = { frames: [COMMIT, refusal("invalid frontend message type 82")], end: "closed" };
    assert.equal(isRefusedByType(unknown, silent(COMMIT)), true);
    assert.equal(isRefusedByType(direct, silent()), false);
    assert.equal(isRefusedByType(direct, silent(COMMIT, READY)), false);
    assert.equal(isRefusedByType(direct, { frames: [COMMIT], end: "closed" }), false);
    for (const other of [refusal("invalid message length"), refusal("canceling statement", "57014")])
      assert.equal(isRefusedByType({ frames: [COMMIT, other, lost], end: "closed" }, silent(COMMIT)), false);
  });

  it("knows PostgreSQL's own fault behind such a Sync, and no other one", () => {
    const failing = (message: string): Played => ({ frames: [refusal(message, "XX000")], end: "answered" });
    assert.equal(isServerFault(failing("StartTransactionCommand: unexpected state STARTED")), true);
    assert.equal(isServerFault(failing("cache lookup failed for type 1")), false);
  });

  it("knows that a reset drops what was not read, and only that", () => {
    const direct: Played = { frames: [COMMIT, READY], end: "closed" };
    assert.equal(difference(direct, { frames: [COMMIT], end: "reset" }), null);
    assert.notEqual(difference(direct, { frames: [READY], end: "reset" }), null);
  });

  it("knows that the gateway may be reset when PostgreSQL stops in the middle of a message", () => {
    const lost = refusal("terminating connection because protocol synchronization was lost");
    const direct: Played = { frames: [COMMIT, lost], end: "closed" };
    assert.equal(difference(direct, { frames: [COMMIT], end: "closed" }), null);
    assert.notEqual(difference(direct, { frames: [COMMIT], end: "silent" }), null);
    assert.notEqual(difference(direct, { frames: [READY], end: "closed" }), null);
    const other: Played = { frames: [COMMIT, refusal("another report")], end: "closed" };
    assert.notEqual(difference(other, { frames: [COMMIT], end: "closed" }), null);
  });
});

describe("a script", () => {
  it("is its lines, and what is no line is left out", () => {
    const whole = readScript(Buffer.from('["Q","SELECT 1"]\n["S"]'), {});
    const torn = readScript(Buffer.from('["Q","SELECT 1"]\n["Q","SEL\n{}\n[7]\n["S"]'), {});
    assert.deepEqual(torn, whole);
    assert.equal(whole.messages.length, 2);
  });

  it("breaks off where its last message is valid so far, but not all there", () => {
    const script = (raw: string): ReturnType<typeof readScript> =>
      readScript(Buffer.from(JSON.stringify(["raw", Buffer.from(raw, "latin1").toString("base64")])), {});
    for (const raw of ["Q\0\0\0\x40SELECT", "Q\0"])
      assert.equal(breaksOff(script(raw)), true, JSON.stringify(raw));
    for (const raw of ["Q\0\0\0\x0aSELEC\0", "Q\0\0\0\x03", "P\xff\xff\xff\xff"])
      assert.equal(breaksOff(script(raw)), false, JSON.stringify(raw));
    assert.equal(breaksOff(readScript(Buffer.from('["Q","SELECT 1"]'), {})), false);
  });

  it("is cut into pieces that are the same each time, and lose nothing", () => {
    for (let length = 1; length < 3_000; length += 97) {
      const bytes = Buffer.alloc(length, length);
      const pieces = piecesOf(bytes);
      assert.deepEqual(piecesOf(bytes), pieces);
      assert.deepEqual(Buffer.concat(pieces.map((piece) => piece.bytes)), bytes);
    }
  });
});
