// Goal: bugs that fuzzing has found stay fixed. Method: each input runs again through the target
// that found it. Most bugs also have a test beside the code.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { type EpochId, makeUuidV7, type TxnId } from "@highwater/protocol";
import { ANYBODY } from "@highwater/service";
import { testDeploymentKeys } from "@highwater/service/testing";
import { SessionHeaders } from "@highwater/txn-gateway/internals";
import { NEXT } from "./src/postgres-script.ts";
import { EPOCH, ID, TOPOLOGY } from "./src/samples.ts";
import { targetOf } from "./src/targets/index.ts";

const READY = "R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x01Z\0\0\0\x05I";
const wire = (...parts: string[]): Buffer =>
  Buffer.concat(parts.flatMap((part, at) => [...(at === 0 ? [] : [NEXT]), Buffer.from(part, "latin1")]));
const header = new SessionHeaders("gateway-1", testDeploymentKeys()).of(
  {
    ...{ id: ID as TxnId, access: "write", epoch: EPOCH as EpochId, digest: "0123456789abcdef" },
    ...{ deadlineMs: 1_800_000_000_000, holder: "4711/1800000000000000" },
  },
  ANYBODY,
);
const levels = (more: object): string =>
  JSON.stringify({ ...TOPOLOGY, levels: { ...TOPOLOGY.levels, ...more } });
const result = (oid: number, text: string): object => ({
  ...{ command: "SELECT", rowCount: 1, fields: [{ name: "a", oid }], rows: [[text]] },
});
const response = (results: readonly unknown[]): string =>
  JSON.stringify({
    ...{
      id: makeUuidV7(1, new Uint8Array(10)),
      state: "committed",
      token: "x",
      announced: true,
      marks: null,
    },
    ...{ position: { epoch: EPOCH, offset: "1" }, results },
  });

const FINDS: readonly (readonly [what: string, target: string, input: string | Buffer])[] = [
  [
    "a token with an offset of more digits than the wire has",
    "token",
    Buffer.concat([Buffer.from([0]), Buffer.alloc(32, 1), Buffer.alloc(27, 0xff)]),
  ],
  ["a level without a name, whose rule nobody looked at", "topology", levels({ "": false })],
  ["a level whose name is none, with a rule that is none", "topology", levels({ Region: { replicas: -1 } })],
  [
    "a session header with a character that no base64 has",
    "session-header",
    Buffer.from(`${header.slice(0, -4)}\u00c1${header.slice(-4)}`, "latin1"),
  ],
  [
    "an announced owner of more than 64 bits",
    "announcements",
    JSON.stringify({
      gateway: "g",
      announcements: [{ kind: "position", id: ID, epoch: EPOCH, offset: "1", owner: "9223372036874775807" }],
    }),
  ],
  ["a text that is no array in a column of arrays", "neon-answers", JSON.stringify(result(1009, ""))],
  [
    "JSON of a depth that takes the stack",
    "neon-answers",
    JSON.stringify(result(114, "[".repeat(50_000) + "1" + "]".repeat(50_000))),
  ],
  [
    "a parameter of a depth that takes the stack",
    "neon-requests",
    `\n\n{"query":"SELECT $1","params":[${"[".repeat(50_000)}${"]".repeat(50_000)}]}`,
  ],
  ["a text that is no JSON in a column of JSON", "sdk-results", response([result(3802, '{"a":r')])],
  ["an int8 that is none", "sdk-results", response([result(20, "1.5")])],
  [
    "results without columns",
    "sdk-results",
    response([{ ...result(20, "1"), fields: [null], rows: [null] }]),
  ],
  [
    "verdicts without marks",
    "sdk-client",
    '503\n\n\n====\n503\n\n\n====\n200\n\n{"verdicts":[]}\n====\n503\n\n',
  ],
  ["an authentication that does not exist", "postgres-wire", wire("R\0\0\0\x08\0\0\x7f\0")],
  ["a description that ends before its columns", "postgres-wire", wire(READY, "T\0\0\0\x06\0\x01")],
  ["an error without its last byte, which was read for ever", "postgres-wire", wire(READY, "E\0\0\0\x04")],
];

describe("what fuzzing has found", () => {
  for (const [what, name, input] of FINDS)
    it(`${name}: ${what}`, async () => {
      const { target } = await targetOf(name);
      const folder = await mkdtemp(join(tmpdir(), "highwater-finds-"));
      const fuzzed = await target.open({ services: null, folder });
      try {
        await fuzzed.run(Buffer.from(input));
      } finally {
        await fuzzed.close?.();
        await rm(folder, { recursive: true, force: true });
      }
    });
});
