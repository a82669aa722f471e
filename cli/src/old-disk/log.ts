// Reads the log behind the fork with pg_waldump: the transactions that committed there, with their
// subtransactions, and the number of rows that they changed in each file.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { EXIT_REFUSED, Refusal } from "../refusal.ts";

export interface Changes {
  inserted: number;
  updated: number;
  deleted: number;
}

export interface Committed {
  readonly xid: string;
  readonly subxids: readonly string[];
  /** As the old primary's clock had it, in UTC. */
  readonly committedAt: string;
  /** Where the record of its commit begins. */
  readonly lsn: string;
  /** By the file: `tablespace/database/file`. */
  readonly changes: ReadonlyMap<string, Changes>;
}

export interface Log {
  readonly committed: readonly Committed[];
  /** Files that were created there, as `database/file`: of new and of rewritten tables. */
  readonly created: ReadonlySet<string>;
  /** Where the last record begins. */
  readonly last: string;
}

const RECORD =
  /^rmgr: (\w+) +len .*?, tx: +(\d+), lsn: ([0-9A-F]+\/[0-9A-F]+), prev [0-9A-F]+\/[0-9A-F]+, desc: (\S+) ?(.*)$/;
const COMMIT = /^(?:(\d+): ?)?(\d{4}-\d\d-\d\d) ([\d:.]+) UTC/;
const SUBXIDS = /; subxacts:((?: \d+)+)/;
const FILE = /\brel (\d+\/\d+\/\d+)/;
const CREATED = /\bbase\/(\d+\/\d+)|\bpg_tblspc\/\d+\/[^/]+\/(\d+\/\d+)/;
const COUNT = /^(?:ntuples: )?(\d+)/;
const SKIPPED = /skipping over (\d+) bytes?/;
/** Of the header of a page of the log. */
const HEADER_MAX = 40;

/** Collects the lines of pg_waldump, in the order of the log. */
class LogReader {
  readonly #committed: Committed[] = [];
  readonly #created = new Set<string>();
  /** By the xid of the transaction or subtransaction. */
  readonly #changes = new Map<string, Map<string, Changes>>();
  #last: string | null = null;
  /** The first record did not begin where it was asked for. */
  isInsideRecord = false;

  add(line: string): void {
    const [, manager, tx = "", lsn = "", kind = "", text = ""] = RECORD.exec(line) ?? [];
    if (manager === undefined) {
      const skipped = SKIPPED.exec(line)?.[1];
      if (skipped !== undefined && Number(skipped) > HEADER_MAX) this.isInsideRecord = true;
      return;
    }
    this.#last = lsn;
    if (manager === "Heap" || manager === "Heap2") this.#count(tx, kind, text);
    else if (manager === "Storage" && kind === "CREATE") {
      const found = CREATED.exec(text);
      if (found !== null) this.#created.add(found[1] ?? found[2] ?? "");
    } else if (manager === "Transaction" && kind.startsWith("COMMIT")) this.#commit(tx, lsn, text);
  }

  #count(tx: string, kind: string, text: string): void {
    const [name] = kind.split("+");
    const file = FILE.exec(text)?.[1];
    if (file === undefined) return;
    const what =
      name === "INSERT" || name === "MULTI_INSERT"
        ? "inserted"
        : name === "UPDATE" || name === "HOT_UPDATE"
          ? "updated"
          : name === "DELETE"
            ? "deleted"
            : null;
    if (what === null) return;
    const files = this.#changes.get(tx) ?? new Map<string, Changes>();
    this.#changes.set(tx, files);
    const changes = files.get(file) ?? { inserted: 0, updated: 0, deleted: 0 };
    files.set(file, changes);
    changes[what] += name === "MULTI_INSERT" ? Number(COUNT.exec(text)?.[1] ?? 1) : 1;
  }

  #commit(tx: string, lsn: string, text: string): void {
    const [, prepared, date, time] = COMMIT.exec(text) ?? [];
    const xid = prepared ?? tx;
    const subxids = SUBXIDS.exec(text)?.[1]?.trim().split(" ") ?? [];
    const changes = new Map<string, Changes>();
    for (const each of [xid, ...subxids])
      for (const [file, { inserted, updated, deleted }] of this.#changes.get(each) ?? []) {
        const all = changes.get(file) ?? { inserted: 0, updated: 0, deleted: 0 };
        changes.set(file, {
          inserted: all.inserted + inserted,
          updated: all.updated + updated,
          deleted: all.deleted + deleted,
        });
      }
    for (const each of [xid, ...subxids]) this.#changes.delete(each);
    if (xid !== "0")
      this.#committed.push({
        xid,
        subxids,
        committedAt: `${date ?? ""}T${time ?? ""}Z`,
        lsn,
        changes,
      });
  }

  /** Null: there is no record. */
  end(): Log | null {
    if (this.#last === null) return null;
    return { committed: this.#committed, created: this.#created, last: this.#last };
  }
}

/** Errors: Refusal. */
export async function readLog(
  program: string,
  { folder, timeline, fork }: { readonly folder: string; readonly timeline: number; readonly fork: string },
): Promise<Log> {
  const args = ["-p", folder, "-t", String(timeline), "-s", fork];
  const child = spawn(program, args, {
    env: { TZ: "UTC", LC_ALL: "C" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  const ended = once(child, "exit");
  const reader = new LogReader();
  for await (const line of createInterface({ input: child.stdout })) reader.add(line);
  // It always ends with an error, where the log ends.
  await ended;
  const log = reader.end();
  if (log === null) throw new Refusal([`The copy has no log behind ${fork}: ${said.trim()}`], EXIT_REFUSED);
  if (reader.isInsideRecord)
    throw new Refusal(
      [`No record of the log begins at ${fork}: give the fork offset of the epoch after the loss`],
      EXIT_REFUSED,
    );
  return log;
}
