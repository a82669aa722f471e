// A tracker's damaged ledger: the tracker reads all of it as it was written, or nothing.
import assert from "node:assert/strict";
import { copyFile, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type EpochId, type Offset, type TxnId } from "@highwater/protocol";
import {
  type AnyTable,
  decodeEntry,
  decodeWaiting,
  encodeEntry,
  encodeWaiting,
  type KeptRow,
  LedgerDatabase,
  type LedgerEntry,
  type Waiting,
} from "@highwater/durability-tracker/internals";
import { EPOCH, ID, OTHER_EPOCH } from "../samples.ts";
import { type Target } from "../target.ts";

const TABLES: readonly AnyTable[] = ["entry", "epoch", "mark", "meta", "outbox", "waiting"];
const ROWS = 400;
const PAGE = 4_096;
const DAMAGE_BYTES = 8;

const owner = { owner: 7n } as LedgerEntry["owner"];
const position = (offset: bigint) => ({ epoch: EPOCH as EpochId, offset: offset as Offset });
const STATES: readonly LedgerEntry["state"][] = [
  { kind: "pending", position: position(83_886_080n) },
  { kind: "intent" },
  { kind: "unproven" },
  { kind: "expired" },
  { kind: "unknown" },
  { kind: "absent", sinceMs: 5, retriedIn: null, asOf: position(10n ** 60n) },
  {
    kind: "lost",
    asOf: position(7n),
    settledAt: "region",
    retriedIn: OTHER_EPOCH as EpochId,
    reappeared: false,
    broken: 2,
    isPublished: false,
  },
];

function entryOf(n: number): LedgerEntry {
  const state = STATES[n % STATES.length] as LedgerEntry["state"];
  return {
    key: `${ID}/${String(n)}`,
    id: ID as TxnId,
    attempt: EPOCH as EpochId,
    kind: "write",
    announced: true,
    state,
    origin: n % 3 === 0 ? null : position(BigInt(n)),
    reached: n % 8,
    atMs: 1_700_000_000_000 + n,
    owner,
    source: { gateway: "g", region: "us-east" } as LedgerEntry["source"],
    isExposed: true,
    announcers: n % 2 === 0 ? [] : ["boot.1", "boot.2"],
    endsWithinMs: 1_000 * n,
    hasOtherTokens: n % 2 === 0,
    metadata: n % 5 === 0 ? { order: String(n) } : null,
    atRisk: n % 7 === 0 ? `${String(n)}.50 EUR` : null,
  };
}

function fill(ledger: LedgerDatabase): void {
  const waiting = Array.from({ length: ROWS }, (_, n) =>
    encodeWaiting({
      id: ID as TxnId,
      offset: (BigInt(n) ** 5n) as Offset,
      owner,
      source: null,
      metadata: null,
      atRisk: n % 3 === 0 ? `${String(n)}.25 EUR` : null,
    } as unknown as Waiting),
  );
  const entries = Array.from({ length: ROWS }, (_, n) => entryOf(n));
  ledger.write({
    clearsWaiting: false,
    through: null,
    waiting,
    rows: [
      ...entries.map((entry) => ({ table: "entry" as const, key: entry.key, body: encodeEntry(entry) })),
      { table: "mark", key: `${EPOCH}/disk`, body: "83886080" },
      { table: "meta", key: "currentEpoch", body: EPOCH },
      { table: "meta", key: "levels", body: '{"disk":0,"region":1}' },
      { table: "epoch", key: EPOCH, body: JSON.stringify({ id: EPOCH, seq: 1 }) },
      { table: "outbox", key: "1", body: "{}" },
    ],
  });
}

function readAll(ledger: LedgerDatabase): Map<string, readonly KeptRow[]> {
  return new Map(
    TABLES.map((table) => {
      const rows: KeptRow[] = [];
      for (let after = ""; ;) {
        const part = ledger.read(table, after);
        rows.push(...part);
        const last = part.at(-1);
        if (last === undefined) return [table, rows];
        after = last.key;
      }
    }),
  );
}

/** Damages one of the files. Eight bytes choose what happens, to which file, where, and how. */
function damage(files: { main: Buffer; log: Buffer }, how: Buffer): void {
  const [what = 0, which = 0] = how;
  const value = how[6] ?? 0;
  const { main, log } = files;
  if (which % 4 === 3 && log.length > 0) {
    // Data on disk stays: a log tears only after the last write that was waited for.
    files.log = Buffer.concat([
      log,
      Buffer.alloc(1 + how.readUInt16BE(2), value),
      log.subarray(32, 32 + value * 64),
    ]);
    return;
  }
  if (main.length === 0) return;
  const at = how.readUInt32BE(2) % main.length;
  const page = at - (at % PAGE);
  switch (what % 6) {
    case 0:
      main[at] = (main[at] ?? 0) ^ (1 << (value % 8));
      break;
    case 1:
      main.subarray(page, page + PAGE).fill(0);
      break;
    case 2:
      // Not empty, because an empty file counts as a new one.
      files.main = main.subarray(0, Math.max(1, at));
      break;
    case 3:
      main.subarray(at, at + 512).fill(value);
      break;
    case 4:
      main.copy(
        main,
        page,
        PAGE * (value % Math.ceil(main.length / PAGE)),
        PAGE * (1 + (value % Math.ceil(main.length / PAGE))),
      );
      break;
    default:
      // In the first page, which describes the file itself.
      main[at % Math.min(120, main.length)] = value;
  }
}

const ledgerFile: Target = {
  name: "ledger-file",
  about: "a damaged ledger is read as it was written, or not at all",
  seeds: [
    ...[0, 1, 2, 3, 4, 5].flatMap((what) =>
      [0, 1, 3].map((which) => Buffer.from([what, which, 0, 1, 0x20 * what, 0x31 + which, 7, 1])),
    ),
    Buffer.alloc(0),
  ],
  sliceRuns: 150,
  maxBytes: 4 * DAMAGE_BYTES,
  open: async ({ folder }) => {
    const source = join(folder, "source.sqlite");
    const ledger = new LedgerDatabase(source);
    fill(ledger);
    const whole = readAll(ledger);
    assertCodec(whole);
    // Once as a kill leaves it, with everything in the log, and once as a stop leaves it.
    const kept = join(folder, "kept.sqlite");
    await copyFile(source, kept);
    const killed = { main: await readFile(kept), log: await readFile(`${source}-wal`) };
    ledger.close();
    const stopped = { main: await readFile(source), log: Buffer.alloc(0) };
    assert.ok(killed.log.length > 10 * PAGE && stopped.main.length > 10 * PAGE);
    const file = join(folder, "ledger.sqlite");
    return {
      run: async (input) => {
        const { main, log } = (input[1] ?? 0) % 2 === 0 ? stopped : killed;
        const files = { main: Buffer.from(main), log: Buffer.from(log) };
        for (let at = 0; at + DAMAGE_BYTES <= input.length; at += DAMAGE_BYTES)
          damage(files, input.subarray(at, at + DAMAGE_BYTES));
        await rm(`${file}-shm`, { force: true });
        await writeFile(file, files.main);
        if (files.log.length > 0) await writeFile(`${file}-wal`, files.log);
        else await rm(`${file}-wal`, { force: true });
        assertAllOrNothing(file, whole);
      },
    };
  },
};

function assertAllOrNothing(file: string, whole: ReadonlyMap<string, readonly KeptRow[]>): void {
  let opened: LedgerDatabase | null = null;
  let found: ReadonlyMap<string, readonly KeptRow[]>;
  try {
    opened = new LedgerDatabase(file);
    found = readAll(opened);
  } catch (cause) {
    assert.ok(cause instanceof Error && cause.message !== "");
    return;
  } finally {
    opened?.close();
  }
  for (const table of TABLES)
    assert.ok(
      isDeepStrictEqual(found.get(table), whole.get(table)),
      `other rows in ${table} than were written: ${String(found.get(table)?.length)} of ${String(whole.get(table)?.length)}`,
    );
}

/** Requires that rows contain what was written to them. */
function assertCodec(whole: ReadonlyMap<string, readonly KeptRow[]>): void {
  for (const { body } of whole.get("entry") ?? []) {
    const read = decodeEntry(body);
    assert.equal(
      encodeEntry({ ...read, isExposed: false, owner: { owner: read.owner } } as unknown as LedgerEntry),
      body,
    );
  }
  for (const { key, body } of whole.get("waiting") ?? []) {
    const read = decodeWaiting(key, body);
    assert.deepEqual(encodeWaiting({ ...read, owner: { owner: read.owner } } as unknown as Waiting), {
      key,
      body,
    });
  }
}

export const targets: readonly Target[] = [ledgerFile];
