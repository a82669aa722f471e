// What a PostgreSQL session was answered.
import { fieldsOf, rowOf, textsOf } from "../wire/frames.ts";
import { type Arrived } from "../wire/session.ts";

export function rowsOf(frames: readonly Arrived[]): (string | null)[][] {
  return frames.filter(({ type }) => type === "D").map(({ body }) => rowOf(body));
}

/** `field`: `M`, the message, or `C`, the SQLSTATE. Null: they have no error. */
export function errorOf(frames: readonly Arrived[], field: "M" | "C" = "M"): string | null {
  const error = frames.find(({ type }) => type === "E");
  return error === undefined ? null : (fieldsOf(error.body).get(field) ?? "an error");
}

/** The last token, or an empty text. */
export function tokenOf(frames: readonly Arrived[]): string {
  const said = frames.filter(({ type }) => type === "S").map(({ body }) => textsOf(body));
  return said.findLast(([name]) => name === "highwater.token")?.[1] ?? "";
}
