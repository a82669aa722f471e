// Listens to one tracker's stream of events and records every verdict in it. When the tracker is
// killed, the listener keeps trying and resumes after the last event that it received. Notes every
// epoch that the tracker knows.
import { setTimeout as pause } from "node:timers/promises";
import { type BrokenRange, type Level, type VerdictReport } from "@highwater/checker";
import { nowMs } from "../clock.ts";
import { type EpochSummary, type Owner } from "../parts.ts";
import { authorization } from "./credential.ts";
import { type Journal } from "./journal.ts";
import { type NamedTracker } from "./messages.ts";

const RECONNECT_MS = 250;
/**
 * A tracker sends a comment every five seconds. A paused one does not even close the connection.
 */
const SILENCE_MS = 12_000;
const LOOK_MS = 1_000;
const LOOK_TIMEOUT_MS = 2_000;

export interface ListenerOptions {
  readonly journal: Journal;
  readonly tracker: NamedTracker;
  /** The level at which it subscribes to every transaction that becomes durable. */
  readonly level: Level;
  /** The levels of the history. A level that services have only for a while is not judged. */
  readonly levels: readonly Level[];
  /** A key receives only its own owner's transactions, so there is a listener for each owner. */
  readonly owners: readonly Owner[];
  readonly signal: AbortSignal;
}

interface Event {
  readonly type: string;
  readonly id: string | undefined;
  readonly data: string;
}

interface TransactionEvent {
  readonly data: {
    readonly id: string;
    readonly attempt: string;
    readonly verdicts: Readonly<Record<Level, VerdictReport["verdict"]>>;
    readonly rule: string;
    readonly position?: { readonly epoch: string; readonly offset: string };
  };
}

interface BrokenPromiseEvent {
  readonly data: Pick<BrokenRange, "level" | "epoch" | "from" | "to">;
}

/** Runs until the signal aborts. */
export async function listen(options: ListenerOptions): Promise<void> {
  const keys = options.owners.length === 0 ? [undefined] : options.owners.map(({ apiKey }) => apiKey);
  await Promise.all([...keys.map((key) => readEvents(options, key)), lookAtEpochs(options)]);
}

async function readEvents(options: ListenerOptions, key: string | undefined): Promise<void> {
  const { tracker, level, signal } = options;
  let last = "0.0";
  while (!signal.aborted) {
    const url = `${tracker.url}/v1/durability/events?durable=true&level=${encodeURIComponent(level)}&after=${last}`;
    try {
      for await (const event of eventsOf(url, { key, signal })) {
        last = event.id ?? last;
        take(event, options);
      }
    } catch (error) {
      // The tracker is down or silent. A fault of this program is another case.
      if (error instanceof SyntaxError) throw error;
    }
    await pause(RECONNECT_MS, undefined, { signal }).catch(() => undefined);
  }
}

function take({ type, data }: Event, { journal, tracker, levels }: ListenerOptions): void {
  if (type === "promise.broken") {
    const { level, epoch, from, to } = (JSON.parse(data) as BrokenPromiseEvent).data;
    if (!levels.includes(level)) return;
    journal.write({ type: "broken_range", atMs: nowMs(), tracker: tracker.name, level, epoch, from, to });
  }
  if (!["transaction.durable", "transaction.lost", "transaction.broken"].includes(type)) return;
  const { id: txn, attempt, verdicts, rule, position = null } = (JSON.parse(data) as TransactionEvent).data;
  for (const [level, verdict] of Object.entries(verdicts)) {
    if (verdict !== "pending" && levels.includes(level))
      journal.report({ txn, level, verdict, by: "event", tracker: tracker.name, attempt, rule, position });
  }
}

async function* eventsOf(
  url: string,
  { key, signal }: { readonly key: string | undefined; readonly signal: AbortSignal },
): AsyncGenerator<Event> {
  const silence = new AbortController();
  const timer = setTimeout(() => {
    silence.abort();
  }, SILENCE_MS);
  try {
    const response = await fetch(url, {
      headers: { accept: "text/event-stream", ...authorization(key) },
      signal: AbortSignal.any([signal, silence.signal]),
    });
    if (!response.ok || response.body === null) {
      await response.body?.cancel();
      return;
    }
    let text = "";
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      timer.refresh();
      const blocks = (text + chunk).split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const field = (name: string): string | undefined =>
          new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1];
        const [type, data] = [field("event"), field("data")];
        if (type !== undefined && data !== undefined) yield { type, id: field("id"), data };
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Asks for epochs, because some end too soon, or on too isolated a node, for any stream. */
async function lookAtEpochs({ journal, tracker, signal }: ListenerOptions): Promise<void> {
  const known = new Set<string>();
  while (!signal.aborted) {
    for (const { id, seq, previous, node } of await epochsOf(tracker, signal)) {
      if (known.has(id)) continue;
      known.add(id);
      journal.note({ kind: "epoch", id, seq, previous, node });
    }
    await pause(LOOK_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** The epochs that the tracker reports; none when it does not answer. */
export async function epochsOf(tracker: NamedTracker, signal?: AbortSignal): Promise<EpochSummary[]> {
  try {
    const limit = AbortSignal.timeout(LOOK_TIMEOUT_MS);
    const response = await fetch(`${tracker.url}/v1/durability/marks`, {
      headers: authorization(),
      signal: signal === undefined ? limit : AbortSignal.any([limit, signal]),
    });
    if (!response.ok) {
      await response.body?.cancel();
      return [];
    }
    return ((await response.json()) as { epochs: EpochSummary[] }).epochs;
  } catch {
    return [];
  }
}
