// A server that is not PostgreSQL, or no longer behaves like it. Every call of the store must end,
// whatever bytes it sends.
import { readFileSync } from "node:fs";
import { HighwaterError, makeUuidV7, type EpochId } from "@highwater/protocol";
import { realClock } from "@highwater/runtime";
import { POSTGRES_DEFAULTS, PostgresStore } from "@highwater/store";
import { NEXT, partsOf, ScriptedServer } from "../postgres-script.ts";
import { EPOCH } from "../samples.ts";
import { type Target } from "../target.ts";

export const NODE = "east";
const CALL_MS = 400;

/** The calls of gateways and trackers to a node. */
export function callsOf(store: PostgresStore, epoch: string): (() => Promise<unknown>)[] {
  const common = { epoch: epoch as EpochId, isolation: "serializable", readOnly: false } as const;
  const id = () => makeUuidV7(Date.now(), new Uint8Array(10));
  const key = () => ({ id: id(), tag: id() });
  const spec = {
    ...common,
    digest: 1n,
    maxRows: 10,
    maxBytes: 10_000,
    statements: [{ sql: "SELECT 1, 'a'", params: [] }],
  };
  return [
    () => store.probe(NODE),
    () => store.positions(NODE),
    () => store.execute(NODE, { ...spec, ...key() }),
    async () => {
      const opening = await store.begin(NODE, { ...spec, ...key() });
      if (opening.kind === "open") await opening.transaction.rollback();
    },
    () => store.lookUp(NODE, [key()]),
    () => store.helpFlush(NODE, epoch as EpochId),
  ];
}

/** The calls whose errors must be in the catalogue. */
const TYPED_FROM = 2;
const TYPED_TO = 4;

function seeds(): Buffer[] {
  const text = readFileSync(new URL("../../seeds/postgres.json", import.meta.url), "utf8");
  return (JSON.parse(text) as string[][]).map((parts) =>
    Buffer.concat(parts.flatMap((part, at) => [...(at === 0 ? [] : [NEXT]), Buffer.from(part, "base64")])),
  );
}

/** Beginnings of messages: authentications, an error, rows, a copy, a notice. */
const MESSAGES = [
  ...[
    "R\0\0\0\x08\0\0\0\0",
    "R\0\0\0\x08\0\0\0\x03",
    "R\0\0\0\x0c\0\0\0\x05abcd",
    "R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0",
  ],
  ...[
    "Z\0\0\0\x05I",
    "Z\0\0\0\x05E",
    "Z\0\0\0\x05?",
    "E\0\0\0\x13SFATAL\0C57P01\0\0",
    "1\0\0\0\x04",
    "2\0\0\0\x04",
  ],
  ...[
    "T\0\0\0\x06\xff\xff",
    "D\0\0\0\x06\xff\xff",
    "D\0\0\0\x0a\0\x01\x7f\xff\xff\xff",
    "C\0\0\0\x0bCOMMIT\0",
    "s\0\0\0\x04",
  ],
  ...[
    "G\0\0\0\x07\0\0\0",
    "H\0\0\0\x07\0\0\0",
    "d\0\0\0\x05x",
    "N\0\0\0\x05\0",
    "A\0\0\0\x04",
    "I\0\0\0\x04",
    "S\0\0\0\x04",
  ],
].map((text) => Buffer.from(text, "latin1"));

const postgresWire: Target = {
  name: "postgres-wire",
  about:
    "whatever a server answers: every call of the store ends in time, and nothing is thrown where nobody catches it",
  seeds: seeds(),
  words: [...MESSAGES, NEXT],
  sliceRuns: 40,
  open: async () => {
    const server = await ScriptedServer.start();
    const url = `postgresql://postgres@127.0.0.1:${String(server.port)}/postgres`;
    return {
      run: async (input) => {
        server.script = partsOf(input);
        const store = new PostgresStore({
          ...POSTGRES_DEFAULTS,
          poolSize: 2,
          clock: realClock,
          helper: "fuzz",
          connectTimeoutMs: CALL_MS,
          callTimeoutMs: CALL_MS,
          statementTimeoutMs: CALL_MS,
          nodes: [{ id: NODE, region: NODE, zone: "a", url }],
        });
        try {
          const calls = callsOf(store, EPOCH).map((call) => call());
          const ends = await Promise.allSettled(calls);
          for (const end of ends.slice(TYPED_FROM, TYPED_TO))
            if (end.status === "rejected" && !(end.reason instanceof HighwaterError))
              throw new Error("a transaction failed with an error of no type", { cause: end.reason });
        } finally {
          await store.close();
        }
      },
      close: () => server.close(),
    };
  },
};

export const targets: readonly Target[] = [postgresWire];
