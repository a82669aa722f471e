// Asks all nodes and trackers at once, each within its own limit, until the replicas' flush
// positions stop moving.
import { type NodeReport } from "@highwater/authority";
import { type EpochId, EpochRecord, validate } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Store, type Witness } from "@highwater/store";
import Type from "typebox";
import { type TrackerMemory } from "../../failover/history.ts";
import { type TrackerPreviews } from "../../failover/report.ts";
import { FailoverPreview, type FailoverPreviewRequest } from "../../failover/wire.ts";

export interface NodeAnswers {
  readonly reports: ReadonlyMap<string, NodeReport>;
  readonly witnesses: ReadonlyMap<string, Witness | null>;
  readonly failures: ReadonlyMap<string, string>;
  readonly moving: ReadonlySet<string>;
}

/** Between two looks; a replica that still replays what it has moves on in that time. */
const LOOK_MS = 300;
const TRACKER_TIMEOUT_MS = 5_000;
const MAX_ANSWER_BYTES = 16 * 1_048_576;

/**
 * Two looks at least; more, until `waitMs` are over, while a position differs from the look before.
 */
export async function askNodes(store: Store, clock: Clock, waitMs: number): Promise<NodeAnswers> {
  const untilMs = clock.monotonicMs() + waitMs;
  let before = await look(store);
  for (;;) {
    await sleep(clock, LOOK_MS);
    const now = await look(store);
    const moving = new Set(
      [...now.reports.values()]
        .filter((report) => hasMoved(before.reports.get(report.node), report))
        .map(({ node }) => node),
    );
    if (moving.size === 0 || clock.monotonicMs() >= untilMs) return { ...now, moving };
    before = now;
  }
}

/** Of a primary it is no surprise: it writes by itself. */
function hasMoved(before: NodeReport | undefined, now: NodeReport): boolean {
  if (now.role === "primary") return false;
  return before === undefined || before.role !== now.role || before.flushed !== now.flushed;
}

async function look(store: Store): Promise<Omit<NodeAnswers, "moving">> {
  const reports = new Map<string, NodeReport>();
  const witnesses = new Map<string, Witness | null>();
  const failures = new Map<string, string>();
  await Promise.all(
    store.nodes.map(({ id }) =>
      store
        .probe(id)
        .then(async (report) => {
          const newest = report.epochs.at(-1)?.id as EpochId | undefined;
          // After the report: what it has replayed by then can be seen now. A node that stops in
          // between says nothing of it.
          const witness =
            newest === undefined ? null : await store.witnessOf(id, newest).catch(() => undefined);
          reports.set(id, report);
          if (witness !== undefined) witnesses.set(id, witness);
        })
        .catch((cause: unknown) => failures.set(id, messageOf(cause))),
    ),
  );
  return { reports, witnesses, failures };
}

export interface TrackerCaller {
  readonly fetch: typeof fetch;
  readonly apiKey: string | null;
}

const MarksReply = Type.Object({ epochs: Type.Array(EpochRecord) });

export type Remembered =
  | ({ readonly kind: "remembers" } & TrackerMemory)
  | { readonly kind: "silent"; readonly tracker: string; readonly reason: string };

/** Of the trackers that answered. */
export function remembering(memories: readonly Remembered[]): TrackerMemory[] {
  return memories.filter((memory) => memory.kind === "remembers");
}

/** The history that each of the trackers follows. */
export function askMemories(urls: readonly string[], caller: TrackerCaller): Promise<Remembered[]> {
  return Promise.all(
    urls.map(async (url): Promise<Remembered> => {
      const tracker = hostOf(url);
      try {
        const body = await call(`${url}/v1/durability/marks`, caller, undefined);
        const checked = validate(MarksReply, body);
        if (!checked.ok) return { kind: "silent", tracker, reason: "its answer is not that of a tracker" };
        return { kind: "remembers", tracker, epochs: checked.value.epochs };
      } catch (cause) {
        return { kind: "silent", tracker, reason: messageOf(cause) };
      }
    }),
  );
}

export async function askPreview(
  url: string,
  caller: TrackerCaller,
  request: FailoverPreviewRequest,
): Promise<TrackerPreviews> {
  const tracker = hostOf(url);
  try {
    const checked = validate(
      FailoverPreview,
      await call(`${url}/v1/durability/failover-preview`, caller, request),
    );
    if (checked.ok) return { tracker, kind: "preview", preview: checked.value };
    return { tracker, kind: "silent", reason: "its answer is not a preview" };
  } catch (cause) {
    return { tracker, kind: "silent", reason: messageOf(cause) };
  }
}

async function call(
  url: string,
  { fetch, apiKey }: TrackerCaller,
  body: FailoverPreviewRequest | undefined,
): Promise<unknown> {
  const { username, password } = new URL(url);
  // Whatever refuses them further on would quote them.
  if (username !== "" || password !== "") throw new Error("its address must hold no user and password");
  const headers = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
  const response = await fetch(url, {
    signal: AbortSignal.timeout(TRACKER_TIMEOUT_MS),
    redirect: "error",
    ...(body === undefined
      ? { headers }
      : {
          method: "POST",
          headers: { ...headers, "content-type": "application/json" },
          body: JSON.stringify(body),
        }),
  });
  const text = await response.text();
  if (text.length > MAX_ANSWER_BYTES) throw new Error("its answer is too large");
  if (response.ok) return JSON.parse(text);
  throw new Error(`it answers ${String(response.status)}${codeOf(text)}`);
}

function codeOf(text: string): string {
  try {
    const { code } = JSON.parse(text) as { code?: unknown };
    return typeof code === "string" ? ` ${code}` : "";
  } catch {
    return "";
  }
}

/** Host and port: an address may hold a password. */
export function hostOf(url: string): string {
  return new URL(url).host;
}

function messageOf(cause: unknown): string {
  const { message, cause: inner } = cause as { message?: unknown; cause?: { code?: unknown } };
  const code = typeof inner?.code === "string" ? ` (${inner.code})` : "";
  return `${typeof message === "string" && message !== "" ? message : String(cause)}${code}`;
}
