// Collects what the transactions of a session run, for sessions whose contents are kept: texts,
// parameters as they came, and digests of the results. The session's transactions have receipts, so
// each unit of the client begins when the server is idle.
// (docs/decisions/0246-what-the-wire-keeps.md)
import { createHash, type Hash } from "node:crypto";
import { type KeptContents, type KeptResult } from "@highwater/protocol";
import { rowTexts } from "../frames/build.ts";
import { type StatementInfo } from "./statement.ts";

const HEADER_BYTES = 5;
const NAMES_MAX = 2_000;
const NO_COLUMNS: readonly Field[] = [];
/** Settings of the gateway itself are no part of what ran. */
const OWN_SETTING = /^[\s;]*set\s+(?:local\s+|session\s+)?highwater\.\w+\s*(?:=|\sto\s)[^;]*;?\s*$/i;
const ENDS = /\b(?:begin|start|commit|end|rollback|abort)\b/i;

interface Field {
  readonly name: string;
  readonly oid: number;
}

type KeptStatement = KeptContents["statements"][number];
/** Complete once the transaction's answers have arrived. */
export type RecordedStatements = () => KeptStatement[];

/** A statement of Parse, or of a simple Query. */
export interface Text {
  readonly sql: string;
  readonly types: readonly number[];
  /** Null: its result was never described. */
  fields: readonly Field[] | null;
}

interface Portal {
  readonly text: Text | null;
  readonly params: readonly (string | null)[];
  readonly binary: readonly number[];
  readonly hasBinaryResult: boolean;
}

/** A statement that runs. */
export class Ran {
  readonly #text: Text;
  readonly #given: Pick<KeptStatement, "params" | "types" | "binary">;
  readonly #hasBinaryResult: boolean;
  #why: string | undefined;
  #hash: Hash | null = null;
  #rows = 0;
  #result: KeptResult | null = null;

  constructor(
    text: Text,
    given: Pick<KeptStatement, "params" | "types" | "binary">,
    {
      why,
      hasBinaryResult = false,
    }: { readonly why?: string | undefined; readonly hasBinaryResult?: boolean },
  ) {
    this.#text = text;
    this.#hasBinaryResult = hasBinaryResult;
    this.#given = given;
    this.#why = why;
  }

  get text(): Text {
    return this.#text;
  }

  /** The bytes of its text and parameters. */
  get size(): number {
    return (this.#given.params ?? []).reduce(
      (sum: number, param) => sum + Buffer.byteLength(String(param)),
      Buffer.byteLength(this.#text.sql),
    );
  }

  spoil(why: string): void {
    this.#why ??= why;
  }

  /** `bytes[start..)` is a DataRow. */
  row(bytes: Buffer, start: number): void {
    if (this.#hasBinaryResult) this.spoil("binary_result");
    if (this.#why !== undefined || this.#text.fields === null) return;
    this.#hash ??= this.#begin(this.#text.fields);
    this.#hash.update((this.#rows++ > 0 ? "," : "") + JSON.stringify(rowTexts(bytes, start)));
  }

  /** `tag`: as the server sent it, with its counts; INSERT also has a zero. */
  completed(tag: string): void {
    const [, command = "", count] = /^(.*?)(?: 0)?(?: (\d+))?$/.exec(tag) ?? [];
    const { fields } = this.#text;
    if (fields === null) this.spoil("undescribed_result");
    else if (fields.length > 0 && this.#hasBinaryResult) this.spoil("binary_result");
    const hash = fields === null || this.#why !== undefined ? null : (this.#hash ?? this.#begin(fields));
    const digest = hash === null ? null : hash.update("]}").digest("hex");
    this.#result = { command, rowCount: Number(count ?? 0), digest };
  }

  /** The same text as in `keptResult`. */
  #begin(fields: readonly Field[]): Hash {
    return createHash("sha256").update(`{"fields":${JSON.stringify(fields)},"rows":[`);
  }

  get statement(): KeptStatement {
    const why = this.#why;
    return {
      sql: this.#text.sql,
      ...this.#given,
      ...(why !== undefined && { unreplayable: why }),
      result: this.#result,
    };
  }
}

export class Recorder {
  /** Of the contents of a transaction, and of the texts that the session has prepared. */
  readonly #mostBytes: number;
  /** Null: the server may have one of two texts. */
  readonly #texts = new Map<string, Text | null>();
  readonly #portals = new Map<string, Portal>();
  #textBytes = 0;
  #ran: Ran[] = [];
  #bytes = 0;
  /** The transaction has run what is not recorded. */
  #isIncomplete = false;
  /** A COMMIT was sent in this unit. */
  #hasEnded = false;

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes;
  }

  /** The client begins to send what the server runs before it waits again. */
  unit(isInBlock: boolean): void {
    if (!isInBlock || this.#hasEnded) this.#fresh();
    this.#hasEnded = false;
  }

  #fresh(): void {
    this.#ran = [];
    this.#bytes = 0;
    this.#isIncomplete = false;
  }

  /** The server refuses a message that ends early. Its name has an unknown meaning from then on. */
  #whole<T>(read: () => T): T | null {
    try {
      return read();
    } catch (cause) {
      if (!(cause instanceof RangeError)) throw cause;
      this.unread();
      return null;
    }
  }

  /** `bytes[start..end)` is a Parse. */
  parsed(bytes: Buffer, start: number, end: number): void {
    this.#whole(() => {
      this.#parsed(bytes, start, end);
    });
  }

  #parsed(bytes: Buffer, start: number, end: number): void {
    const [name, textStart] = stringAt(bytes, start + HEADER_BYTES);
    const [sql, typesStart] = stringAt(bytes, textStart);
    const count = typesStart + 2 > end ? 0 : bytes.readInt16BE(typesStart);
    const types = Array.from({ length: Math.max(0, count) }, (_, at) =>
      bytes.readUInt32BE(typesStart + 2 + 4 * at),
    );
    const known = this.#texts.get(name);
    if (name !== "" && known !== undefined) {
      const isSame = known?.sql === sql && known.types.join() === types.join();
      if (!isSame) this.#texts.set(name, null);
      return;
    }
    this.#forget(name);
    this.#textBytes += sql.length;
    // Without its text, a transaction that runs the statement is not kept.
    if (this.#texts.size >= NAMES_MAX || this.#textBytes > 16 * this.#mostBytes) return;
    this.#texts.set(name, { sql, types, fields: null });
  }

  /** A Parse that is too long to be read. */
  parsedUnread(bytes: Buffer, start: number): void {
    this.#forget(stringAt(bytes, start + HEADER_BYTES)[0]);
  }

  #forget(name: string): void {
    this.#textBytes -= this.#texts.get(name)?.sql.length ?? 0;
    this.#texts.delete(name);
  }

  /** `bytes[start..)` is a Bind. */
  bound(bytes: Buffer, start: number): void {
    this.#whole(() => {
      this.#bound(bytes, start);
    });
  }

  #bound(bytes: Buffer, start: number): void {
    const [portal, nameStart] = stringAt(bytes, start + HEADER_BYTES);
    const [name, formatsStart] = stringAt(bytes, nameStart);
    const [formats, valuesStart] = int16s(bytes, formatsStart);
    const params: (string | null)[] = [];
    const binary: number[] = [];
    let at = valuesStart + 2;
    for (let left = bytes.readInt16BE(valuesStart); left > 0; left--) {
      const size = bytes.readInt32BE(at);
      at += 4;
      const isBinary = (formats.length === 1 ? formats[0] : formats[params.length]) === 1;
      if (isBinary && size >= 0) binary.push(params.length);
      params.push(size < 0 ? null : bytes.toString(isBinary ? "base64" : "utf8", at, at + size));
      if (size > 0) at += size;
    }
    const [results] = int16s(bytes, at);
    if (this.#portals.size >= NAMES_MAX) this.#portals.clear();
    const text = this.#texts.get(name) ?? null;
    this.#portals.set(portal, { text, params, binary, hasBinaryResult: results.includes(1) });
  }

  boundUnread(bytes: Buffer, start: number): void {
    this.#portals.delete(stringAt(bytes, start + HEADER_BYTES)[0]);
  }

  closed(bytes: Buffer, start: number): void {
    const [name] = stringAt(bytes, start + HEADER_BYTES + 1);
    if (bytes[start + HEADER_BYTES] === STATEMENT) this.#forget(name);
    else this.#portals.delete(name);
  }

  /** What a Describe asks for. */
  described(bytes: Buffer, start: number): Text | null {
    const [name] = stringAt(bytes, start + HEADER_BYTES + 1);
    if (bytes[start + HEADER_BYTES] === STATEMENT) return this.#texts.get(name) ?? null;
    return this.#portals.get(name)?.text ?? null;
  }

  /** A simple Query. Null: it is not recorded. */
  query(sql: string, info: StatementInfo, keeps: boolean): Ran | null {
    this.#renamed(info);
    const why = info.isSeveral ? "several_statements" : kindOf(info);
    if (info.isSeveral && ENDS.test(sql)) this.incomplete();
    return this.#add(new Ran({ sql, types: [], fields: NO_COLUMNS }, {}, { why }), sql, info, keeps);
  }

  /** An Execute. Null: it is not recorded. */
  execute(bytes: Buffer, start: number, info: StatementInfo, keeps: boolean): Ran | null {
    return this.#whole(() => this.#execute(bytes, start, info, keeps));
  }

  #execute(bytes: Buffer, start: number, info: StatementInfo, keeps: boolean): Ran | null {
    const [name, limitStart] = stringAt(bytes, start + HEADER_BYTES);
    const portal = this.#portals.get(name);
    this.#renamed(info);
    if (portal?.text == null) {
      this.incomplete();
      return null;
    }
    const { text, params, binary, hasBinaryResult } = portal;
    const { types } = text;
    const why = kindOf(info) ?? (bytes.readInt32BE(limitStart) > 0 ? "row_limit" : undefined);
    const given = {
      ...(params.length > 0 && { params: [...params] }),
      ...(types.some((type) => type !== 0) && { types: [...types] }),
      ...(binary.length > 0 && { binary: [...binary] }),
    };
    return this.#add(new Ran(text, given, { why, hasBinaryResult }), text.sql, info, keeps);
  }

  #add(ran: Ran, sql: string, { kind, isSeveral }: StatementInfo, keeps: boolean): Ran | null {
    if (!isSeveral && (kind === "begin" || OWN_SETTING.test(sql))) return null;
    if (!keeps) this.incomplete();
    if (this.#hasEnded) this.incomplete();
    if (!isSeveral && kind === "commit") {
      this.#hasEnded = true;
      return null;
    }
    if (this.#isIncomplete) return null;
    this.#bytes += ran.size;
    if (this.#bytes > this.#mostBytes) {
      this.incomplete();
      return null;
    }
    this.#ran.push(ran);
    return ran;
  }

  /** Statements and cursors of SQL share their names with those of the protocol. */
  #renamed({ dropsStatements, names }: StatementInfo): void {
    if (dropsStatements) this.#dropTexts();
    if (names?.does === "declare" || names?.does === "anything") this.#portals.clear();
  }

  #dropTexts(): void {
    this.#texts.clear();
    this.#textBytes = 0;
  }

  /** What the server runs by a name is not known any more. */
  unread(): void {
    this.incomplete();
    this.#dropTexts();
    this.#portals.clear();
  }

  /** It has run what cannot be recorded, so its contents are not kept. */
  incomplete(): void {
    this.#isIncomplete = true;
    this.#ran = [];
  }

  /** The transaction is about to commit. Null: not all of it is recorded. */
  take(): RecordedStatements | null {
    const ran = this.#ran;
    const isIncomplete = this.#isIncomplete;
    this.#ran = [];
    return isIncomplete ? null : () => ran.map(({ statement }) => statement);
  }
}

const STATEMENT = "S".charCodeAt(0);

function kindOf({ kind }: StatementInfo): string | undefined {
  return kind === "copy" ? "copy" : undefined;
}

/** Ends at a zero byte. Returns where the next field begins. */
function stringAt(bytes: Buffer, start: number): readonly [string, number] {
  const end = bytes.indexOf(0, start);
  return [bytes.toString("utf8", start, end), end + 1];
}

function int16s(bytes: Buffer, start: number): readonly [number[], number] {
  const count = bytes.readInt16BE(start);
  const values = Array.from({ length: count }, (_, at) => bytes.readInt16BE(start + 2 + 2 * at));
  return [values, start + 2 + 2 * count];
}

/** The columns of a RowDescription. */
export function fieldsOf(bytes: Buffer, start: number): readonly Field[] {
  const fields: Field[] = [];
  let at = start + HEADER_BYTES + 2;
  for (let left = bytes.readInt16BE(start + HEADER_BYTES); left > 0; left--) {
    const [name, rest] = stringAt(bytes, at);
    fields.push({ name, oid: bytes.readUInt32BE(rest + 6) });
    at = rest + 18;
  }
  return fields.length === 0 ? NO_COLUMNS : fields;
}
