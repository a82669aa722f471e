// The command `watch`: follows the stream of events, and continues it after an interruption.
import { realClock, sleep } from "@highwater/runtime";
import { readSse, type SseEvent } from "@highwater/txn-gateway/sse";
import { type Call } from "./command.ts";
import { Refusal } from "./refusal.ts";
import { type Service, serviceAt } from "./services.ts";

/** Between two attempts. */
const RETRY_MS = 1_000;

interface Event {
  readonly type: string;
  readonly at: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export async function run(call: Call): Promise<number> {
  const { given, env, note } = call;
  given.none();
  const service = serviceAt(given.text("tracker"), ["HIGHWATER_TRACKERS", "HIGHWATER_URL"], env);
  const query = queryOf(call);
  const signal = call.catchInterrupt();
  let after = given.text("after");
  let isOpen = false;
  while (!signal.aborted) {
    try {
      for await (const event of follow(service, query, after, signal)) {
        isOpen = true;
        after = event.id ?? after;
        show(event, call);
      }
      note("The stream ended; connecting again.");
    } catch (cause) {
      if (signal.aborted) break;
      // The first attempt shows that address, key and filter are right.
      if (cause instanceof Refusal && !isOpen) throw cause;
      note(`Interrupted (${cause instanceof Error ? cause.message : String(cause)}); connecting again.`);
    }
    await sleep(realClock, RETRY_MS, signal);
  }
  return 0;
}

function queryOf({ given }: Call): URLSearchParams {
  const query = new URLSearchParams();
  for (const type of given.all("types").flatMap((list) => list.split(",")))
    query.append("types", type.trim());
  if (given.flag("durable")) query.set("durable", "true");
  const level = given.text("level");
  if (level !== null) query.set("level", level);
  return query;
}

async function* follow(
  service: Service,
  query: URLSearchParams,
  after: string | null,
  signal: AbortSignal,
): AsyncGenerator<SseEvent, void, undefined> {
  const headers = { accept: "text/event-stream", ...(after !== null && { "last-event-id": after }) };
  const response = await service.fetch(`/v1/durability/events?${query.toString()}`, { headers, signal });
  if (response.body !== null) yield* readSse(response.body);
}

function show({ event, data }: SseEvent, { given, print, note }: Call): void {
  if (event === "begin") {
    const { missed } = JSON.parse(data) as { readonly missed?: boolean };
    if (missed === true) note("Events before this were dropped because of their age: ask for verdicts.");
    return;
  }
  print(given.flag("json") ? data : asText(JSON.parse(data) as Event));
}

/** Objects as JSON: a line stays a line. */
function asText({ type, at, data }: Event): string {
  const facts = Object.entries(data).map(
    ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return [at, type, ...facts].join("  ");
}
