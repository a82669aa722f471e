// One signed-in visit: the key, what it may do, and what it reads from the tracker. Signing out
// ends its streams and forgets the key.
import { signal } from "@preact/signals";
import { realClock } from "@highwater/runtime";
import { type Access, enter } from "./access.ts";
import { Api } from "./api.ts";
import { EventLog } from "./event-log.ts";
import { Live } from "./live.ts";

export interface Session {
  readonly api: Api;
  readonly live: Live;
  readonly log: EventLog;
}

export const clock = realClock;
export const access = signal<Access>({ kind: "checking" });
export const session = signal<Session | null>(null);

/** `key`: null asks whether the tracker needs one. */
export async function signIn(key: string | null): Promise<void> {
  const api = new Api(key, clock);
  const found = await enter(api, key !== null);
  if (found.kind === "open") {
    const live = new Live(api, clock);
    session.value = { api, live, log: new EventLog(api, clock) };
    if (found.scopes.has("read")) live.start();
  }
  access.value = found;
}

export function signOut(): void {
  session.peek()?.live.stop();
  session.peek()?.log.stop();
  session.value = null;
  access.value = { kind: "asked", refusal: "" };
}

/** What the tracker wrote into the page that it served. */
export function served(name: "tracker" | "region" | "authority"): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="highwater-${name}"]`)?.content ?? "";
}
