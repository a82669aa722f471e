// The check that an answer of the v1 wire has the shape it must have; `make gen` writes the types,
// and `test/wire.test.ts` proves the guards equal to the protocol's schemas.
import type * as wire from "./wire-types.ts";

export type * from "./wire-types.ts";

/** The verdict on one transaction at one level, and what this client knows of the transaction. */
export interface TokenVerdict extends wire.TokenVerdict {
  /** Metadata from the transaction's options; absent if another process has committed it. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Whether the transaction was `readOnly`; absent if another process has committed it. */
  readonly readOnly?: boolean;
}

/** A token that a tracker does not judge for this caller. It judges the others. */
export interface RefusedToken extends wire.RefusedToken {
  /** Always absent. */
  readonly id?: undefined;
}

/** The longest that the service holds an answer. */
export const WAIT_MS_MAX = 60_000;

type Guard = (value: unknown) => boolean;

const matches =
  (pattern: RegExp): Guard =>
  (value) =>
    typeof value === "string" && pattern.test(value);
const orNull =
  (guard: Guard): Guard =>
  (value) =>
    value == null || guard(value);
const listOf =
  (item: Guard): Guard =>
  (value) =>
    Array.isArray(value) && value.every(item);
const isRecord = (value: unknown): value is Record<string, unknown> => Object(value) === value;

/** Decimal text of 64 digits at most. */
export const isOffset = matches(/^(0|[1-9]\d{0,63})$/);
export const isUuid = matches(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
const isText = matches(/^/);
const isNumber: Guard = (value) => typeof value === "number";
const oneOf = (alternatives: string): Guard => matches(new RegExp(`^(${alternatives})$`));

/**
 * Checks that a message has fields: their names with a space between, and a `?` behind those that
 * may be absent or null. The shapes that this package relies on, and no more: a newer service may
 * add fields.
 */
const has =
  <T>(names: string) =>
  (value: unknown): value is T =>
    isRecord(value) &&
    names.split(" ").every((name) => {
      const [field = ""] = name.split("?");
      const guard = FIELDS[field] ?? isText;
      return (field === name ? guard : orNull(guard))(value[field]);
    });

/** What a field holds, in whichever message it stands; any other one holds text. */
const FIELDS: Readonly<Record<string, Guard>> = {
  id: isUuid,
  epoch: isUuid,
  offset: isOffset,
  seq: isNumber,
  rowCount: isNumber,
  oid: isNumber,
  position: has("epoch offset"),
  levels: (levels) => isRecord(levels) && Object.values(levels).every(isOffset),
  marks: has("epoch seq levels"),
  epochs: listOf(has("id seq")),
  results: listOf(has("command rowCount fields rows")),
  fields: listOf(has("name oid")),
  rows: listOf(listOf(orNull(isText))),
  error: has("code detail"),
  answers: listOf(has("status body")),
  status: isNumber,
  body: isRecord,
  verdicts: listOf((each) => has("token id level verdict position")(each) || has("token error")(each)),
  outcome: oneOf("not_applied|applied|unknown"),
  retry: oneOf("never|transaction|resolve_outcome|wait"),
};

export const isMarks = has<wire.Marks>("epoch seq levels");
export const isEpochEvent = has<wire.EpochEvent>("epochs");
export const isTransactionResponse = has<wire.TransactionResponse>("id state token position results? marks?");
export const isOpenTransactionResponse = has<wire.OpenTransactionResponse>("state results expiresAt marks?");
export const isTransactionStateResponse = has<wire.TransactionStateResponse>(
  "id state token? position? marks?",
);
export const isRollbackResponse = has<wire.RollbackResponse>("state");
export const isVerdictsResponse = has<wire.VerdictsResponse>("verdicts marks?");
export const isTicketsResponse = has<{ answers: { status: number; body: object }[] }>("answers");
export const isMarksResponse = has<wire.MarksResponse>("epochs marks?");
export const isProblem = has<wire.Problem>("code outcome retry");
