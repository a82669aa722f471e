// Sends one question to one tracker, and checks the answer.
import { type Static, type TSchema, validate } from "@highwater/protocol";
import { type Deps } from "../deps.ts";

/** For the way there and back; then the next tracker is asked. */
const GRACE_MS = 2_000;

/** Null: no answer, or none that can be read. */
export async function askTracker<S extends TSchema>(
  transport: Deps["transport"],
  url: string,
  {
    question,
    schema,
    heldMs,
    graceMs = GRACE_MS,
  }: {
    readonly question: unknown;
    readonly schema: S;
    readonly heldMs: number;
    readonly graceMs?: number;
  },
): Promise<Static<S> | null> {
  try {
    const answer = await transport.post(url, JSON.stringify(question), heldMs + graceMs);
    if (answer.status !== 200) return null;
    const checked = validate(schema, JSON.parse(answer.body));
    return checked.ok ? checked.value : null;
  } catch {
    return null;
  }
}
