// The gateway's own statements in a client's session: their names, messages and answers. The store
// has their texts.
import { randomBytes } from "node:crypto";
import { parseAtRisk } from "@highwater/protocol";
import { type CommitOrder, WIRE_SETTINGS, type WireStatements } from "@highwater/store";
import { defaultLevel } from "../../txn/request.ts";
import { stronger } from "../../txn/minimum.ts";
import {
  bind,
  closePortal,
  closeStatement,
  execute,
  parse,
  query,
  type Report,
  SYNC,
} from "../frames/build.ts";

/** The session's `highwater.*` settings, as the server last reported them. */
export interface Settings {
  readonly ack: "durable" | "commit";
  /** Null: the default level. */
  readonly level: string | null;
  /** 0: no limit. */
  readonly maxWaitMs: number;
  readonly readsDurably: boolean;
  /** A read whose time is over is refused instead of shown. */
  readonly isDurableOnly: boolean;
  /** The id that the client chose for the transaction. */
  readonly id: string | null;
  /** An amount and its unit, for the limits on what is at risk; null: none. */
  readonly atRisk: string | null;
  /** Null: as the key says, or else the gateway. */
  readonly keep: boolean | null;
}

export const DEFAULT_SETTINGS: Settings = {
  ack: "durable",
  level: null,
  maxWaitMs: 0,
  readsDurably: false,
  isDurableOnly: false,
  id: null,
  atRisk: null,
  keep: null,
};

/** Random, to collide with no name of the client. A client that replaces it harms only itself. */
const RANDOM_BYTES = 24;
const NAME = `highwater_${randomBytes(RANDOM_BYTES).toString("hex")}`;
/** At most 63 bytes, which is all that PostgreSQL keeps of a name. */
const RECEIPT_NAME = `${NAME}_r`;
const KEPT_NAME = `${NAME}_k`;
const ERROR_NAME = `${NAME}_e`;

/**
 * A Close that finds nothing and causes no notice. A notice before its answer belongs to the
 * client's message before it: the server may report a message's duration after its answer.
 */
export const OWN_BORDER: Buffer = closePortal(NAME);
/**
 * Uses a named portal, because the unnamed one may be the client's. It is closed, because it would
 * otherwise live until the transaction ends.
 */
export const OWN_CHECK: Buffer = Buffer.concat([bind(NAME, NAME), execute(NAME), closePortal(NAME)]);
/**
 * Ends the portal of a read that was sent in another form. Notices of the read come before the
 * answer to this.
 */
export const UNNAMED_BORDER: Buffer = closePortal("");
/**
 * Follows UNNAMED_BORDER. The unnamed portal needs no Close, and does not look like one of the
 * client's that stays open.
 */
export const OWN_CHECK_UNNAMED: Buffer = Buffer.concat([bind("", NAME), execute("")]);

/** The values of a transaction's receipt, as texts: id, tag, epoch, digest. */
export type ReceiptValues = readonly [id: string, tag: string, epoch: string, digest: string];

export function ownReceipt(values: ReceiptValues, isKept: boolean): Buffer {
  const name = isKept ? KEPT_NAME : RECEIPT_NAME;
  return Buffer.concat([bind(name, name, values), execute(name), closePortal(name)]);
}

function prepareAnew(name: string, text: string, types?: readonly number[]): Buffer {
  return Buffer.concat([closeStatement(name), parse(name, text, types)]);
}

/** The messages that contain the store's statements. Made once for all sessions. */
export class OwnMessages {
  /** Each begins with a Close, as OWN_BORDER does. */
  readonly readPrepare: Buffer;
  readonly prepare: Buffer;
  readonly receiptPrepare: Buffer;
  readonly keptPrepare: Buffer;
  /** Uses the check's name to leave no unnamed statement. The check has to be prepared again. */
  readonly probe: Buffer;
  readonly #statements: WireStatements;

  constructor(statements: WireStatements) {
    const { check, receipt, keptReceipt, probe, readCheck } = statements;
    this.#statements = statements;
    this.readPrepare = prepareAnew(NAME, readCheck);
    this.prepare = prepareAnew(NAME, check);
    this.receiptPrepare = prepareAnew(RECEIPT_NAME, receipt.text, receipt.types);
    this.keptPrepare = prepareAnew(KEPT_NAME, keptReceipt, receipt.types);
    this.probe = Buffer.concat([
      closeStatement(NAME),
      parse(NAME, probe),
      bind(NAME, NAME),
      execute(NAME),
      SYNC,
    ]);
  }

  /** A statement that fails with this error and undoes its transaction, in each protocol. */
  error(report: Report): { readonly query: Buffer; readonly extended: Buffer } {
    const text = this.#statements.failing(report);
    const extended = [closeStatement(ERROR_NAME), parse(ERROR_NAME, text), bind(ERROR_NAME, ERROR_NAME)];
    return { query: query(text), extended: Buffer.concat([...extended, execute(ERROR_NAME)]) };
  }
}

/** What the database says of a transaction whose contents are kept. */
export interface KeptFacts {
  readonly order: CommitOrder;
  readonly isolation: string;
  /** Facts of the session, as a text of JSON. */
  readonly session: string;
}

export interface CheckAnswer {
  readonly hasWritten: boolean;
  /** The texts of the settings. */
  readonly settings: readonly (string | null)[];
  /** All texts as one. Equal texts are equal settings. */
  readonly settingsText: string;
  /** `current_user`. */
  readonly role: string | null;
  /** The transaction has its receipt. */
  readonly hasReceipt: boolean;
  /** Null: its contents are not kept. */
  readonly kept: KeptFacts | null;
  /** On the read port: the token, and the transaction's isolation level. */
  readonly after: string;
  readonly isolation: string;
}

/** Null if the columns are not an answer to the check. */
export function readCheck(columns: readonly (string | null)[]): CheckAnswer | null {
  const [hasWritten, ...rest] = columns;
  if (hasWritten !== "t" && hasWritten !== "f") return null;
  const settings = rest.slice(0, WIRE_SETTINGS.length);
  const [role = null, first, second, ...more] = rest.slice(WIRE_SETTINGS.length);
  const [snapshot, isolation, session] = more;
  return {
    hasWritten: hasWritten === "t",
    settings,
    settingsText: settings.map((one) => one ?? "").join("\0"),
    role,
    hasReceipt: first === "t",
    after: first ?? "",
    isolation: second ?? "",
    kept:
      second != null && snapshot != null && isolation != null && session != null
        ? { order: { xid: second, snapshot }, isolation, session }
        : null,
  };
}

/** What asks for less than the key's minimum level is raised to it, with a warning. */
export function atLeast(
  settings: Settings,
  least: string | null,
  levels: readonly string[],
): { readonly settings: Settings; readonly faults: readonly string[] } {
  if (least === null) return { settings, faults: [] };
  const { ack, level: asked, maxWaitMs } = settings;
  const level = stronger(asked ?? defaultLevel(levels), least, levels);
  const why = `the minimum level of this key is ${least}`;
  const faults = [
    ...(ack === "commit" ? [`highwater.ack is "commit", but ${why}; it counts as durable`] : []),
    ...(asked !== null && asked !== level ? [`highwater.level is "${asked}", but ${why}`] : []),
    ...(maxWaitMs > 0 ? [`highwater.max_wait has no effect on commits, because ${why}`] : []),
  ];
  return { settings: { ...settings, ack: "durable", level }, faults };
}

/**
 * The settings, and the faults in them. A wrong value counts as the safest one. `least`: the key's
 * minimum level.
 */
export function readSettings(
  texts: readonly (string | null)[],
  levels: readonly string[],
  least: string | null = null,
): { readonly settings: Settings; readonly faults: readonly string[] } {
  const [ack, level, maxWait, readAck, id, reads, atRisk, keep] = texts.map((text) =>
    text === "" ? null : text,
  );
  const faults: string[] = [];
  const oneOf = (name: string, value: string | null | undefined, other: string, usual: string): boolean => {
    if (value === other) return true;
    if (value != null && value !== usual)
      faults.push(`highwater.${name} is "${value}"; it must be ${usual} or ${other}, and counts as durable`);
    return false;
  };
  const isKnown = level == null || levels.includes(level);
  if (!isKnown)
    faults.push(
      `highwater.level is "${level}", which is not configured, and counts as ${levels.at(-1) ?? ""}; use one of ${levels.join(", ")}`,
    );
  const maxWaitMs = readMs(maxWait ?? "0");
  if (maxWaitMs === null)
    faults.push(
      `highwater.max_wait is "${maxWait ?? ""}"; it must be milliseconds, such as 5000 or 5s, and counts as 0`,
    );
  const readsDurably =
    oneOf("read_ack", readAck, "durable", "commit") || (readAck != null && readAck !== "commit");
  const isKnownReads = reads == null || READS.has(reads);
  if (!isKnownReads)
    faults.push(
      `highwater.reads is "${reads}"; it must be committed, wait or durable, and counts as durable`,
    );
  const isDurableOnly = !isKnownReads || reads === "durable";
  const isValue = atRisk == null || parseAtRisk(atRisk) !== undefined;
  if (!isValue)
    faults.push(
      `highwater.at_risk is "${atRisk}"; it must be an amount and a unit, such as 12.50 EUR, and highwater.ack counts as durable`,
    );
  if (keep != null && keep !== "on" && keep !== "off")
    faults.push(`highwater.keep is "${keep}"; it must be on or off, and counts as on`);
  const isFast = oneOf("ack", ack, "commit", "durable") && isValue;
  const asked: Settings = {
    ack: isFast ? "commit" : "durable",
    level: isKnown ? (level ?? null) : (levels.at(-1) ?? null),
    maxWaitMs: maxWaitMs ?? 0,
    readsDurably: readsDurably || isDurableOnly || reads === "wait",
    isDurableOnly,
    id: id ?? null,
    atRisk: isValue ? (atRisk ?? null) : null,
    keep: keep == null ? null : keep !== "off",
  };
  const { settings, faults: raised } = atLeast(asked, least, levels);
  return { settings, faults: [...faults, ...raised] };
}

const READS: ReadonlySet<string> = new Set(["committed", "wait", "durable"]);
/** Longer than any sensible time. */
const TIME_LENGTH_MAX = 32;
const UNITS_MS: Readonly<Record<string, number>> = { "": 1, ms: 1, s: 1_000, min: 60_000, h: 3_600_000 };

/** Parses a time as PostgreSQL does: a number with or without a unit. */
function readMs(text: string): number | null {
  if (text.length > TIME_LENGTH_MAX) return null;
  const match = /^\s*(\d{1,12})\s*(ms|s|min|h|)\s*$/.exec(text);
  if (match === null) return null;
  return Number(match[1]) * (UNITS_MS[match[2] ?? ""] ?? 1);
}
