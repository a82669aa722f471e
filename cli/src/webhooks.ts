// The commands of `webhooks`: calls of a tracker's API about an owner's endpoints and deliveries.
import {
  type CreatedWebhook,
  type DeliveryDetails,
  type DeliveryList,
  type NewWebhook,
  type RecoverResponse,
  type Webhook,
  type WebhookDelivery,
  type WebhookList,
  type WebhookSecret,
  WEBHOOK_LIMITS,
} from "@highwater/protocol";
import { realClock, sleep } from "@highwater/runtime";
import { type Call } from "./command.ts";
import { badInput, EXIT_REFUSED, Refusal } from "./refusal.ts";
import { serviceAt } from "./services.ts";
import { asTable } from "./table.ts";

const EXIT = { done: 0, notAccepted: 3, open: 4 } as const;
const ID = /^[A-Za-z0-9_-]{1,100}$/;
const WAIT_S = { fallback: 20, min: 0, max: 300 };
const POLL_MS = 250;
/** Of 10,000 deliveries each. */
const RECOVERIES_MAX = 1_000;

export async function list(call: Call): Promise<number> {
  call.given.none();
  const answer = await api(call).get<WebhookList>("");
  return show(call, answer, ({ webhooks }) =>
    webhooks.length === 0
      ? ["This owner has no endpoint. To make one: highwater webhooks create URL --event TYPE"]
      : asTable(
          [
            ["endpoint", "state", "url", "events"],
            ...webhooks.map((webhook) => [
              webhook.id,
              stateOf(webhook),
              webhook.url,
              webhook.events.join(", "),
            ]),
          ],
          "",
        ),
  );
}

export async function create(call: Call): Promise<number> {
  const { given } = call;
  const [url] = names(call, ["url"], /./);
  const events = given.all("event").flatMap((each) => each.split(","));
  if (events.length === 0) throw badInput("name at least one --event");
  const filter = Object.fromEntries(given.all("filter").map(metadataOf));
  const description = given.text("description");
  const asked = {
    url,
    // The tracker knows the types.
    events: events.map((event) => event.trim()) as NewWebhook["events"],
    ...(Object.keys(filter).length > 0 && { filter }),
    ...(description !== null && { description }),
  };
  const made = await api(call).send<CreatedWebhook>("POST", "", asked);
  return show(call, made, ({ id, secret }) => [id, `secret: ${secret}`]);
}

export const enable = (call: Call): Promise<number> => change(call, { disabled: false });
export const disable = (call: Call): Promise<number> => change(call, { disabled: true });

async function change(call: Call, what: { readonly disabled: boolean }): Promise<number> {
  const [id] = names(call, ["endpoint"]);
  const webhook = await api(call).send<Webhook>("PATCH", `/${id}`, what);
  return show(call, webhook, (changed) => [`${changed.id}: ${stateOf(changed)}`]);
}

export async function remove(call: Call): Promise<number> {
  const [id] = names(call, ["endpoint"]);
  await api(call).send("DELETE", `/${id}`);
  return show(call, { id, deleted: true }, () => [`${id}: deleted, with its deliveries`]);
}

export async function secret(call: Call): Promise<number> {
  const { given } = call;
  const [id] = names(call, ["endpoint"]);
  const { overlapSecondsDefault: fallback, overlapSeconds: max } = WEBHOOK_LIMITS;
  const overlapSeconds = given.whole("overlap", { fallback, min: 0, max });
  if (given.text("overlap") !== null && !given.flag("rotate")) throw badInput("--overlap goes with --rotate");
  const found = given.flag("rotate")
    ? await api(call).send<WebhookSecret>("POST", `/${id}/secret/rotate`, { overlapSeconds })
    : await api(call).get<WebhookSecret>(`/${id}/secret`);
  return show(call, found, ({ secret: current, previous }) => [
    current,
    ...(previous === undefined ? [] : [`until ${previous.until} also signs: ${previous.secret}`]),
  ]);
}

/** Sends a test, and waits for what became of it. */
export async function test(call: Call): Promise<number> {
  const [id] = names(call, ["endpoint"]);
  const waitMs = 1_000 * call.given.whole("wait", WAIT_S);
  const tracker = api(call);
  const sent = await tracker.send<WebhookDelivery>("POST", `/${id}/test`, {});
  const untilMs = realClock.monotonicMs() + waitMs;
  for (;;) {
    const delivery = await tracker.get<DeliveryDetails>(`/${id}/deliveries/${sent.id}`);
    if (delivery.status !== "pending" || realClock.monotonicMs() >= untilMs) {
      show(call, delivery, describe);
      return { delivered: EXIT.done, failed: EXIT.notAccepted, held: EXIT.open, pending: EXIT.open }[
        delivery.status
      ];
    }
    await sleep(realClock, POLL_MS);
  }
}

export async function deliveries(call: Call): Promise<number> {
  const { given, note } = call;
  const [id] = names(call, ["endpoint"]);
  const query = new URLSearchParams();
  for (const name of ["status", "limit", "before"]) {
    const value = given.text(name);
    if (value !== null) query.set(name, value);
  }
  const page = await api(call).get<DeliveryList>(
    `/${id}/deliveries${query.size > 0 ? `?${query.toString()}` : ""}`,
  );
  if (page.next !== null && !given.flag("json")) note(`There are older ones: --before ${page.next}`);
  return show(call, page, ({ deliveries: all }) =>
    all.length === 0
      ? ["No delivery."]
      : asTable(
          [
            ["delivery", "event", "status", "attempts", "created", "next attempt"],
            ...all.map((each) => [
              each.id,
              each.type,
              each.status,
              String(each.attempts),
              each.createdAt,
              each.nextAttemptAt ?? "",
            ]),
          ],
          "",
        ),
  );
}

export async function delivery(call: Call): Promise<number> {
  const [id, of] = names(call, ["endpoint", "delivery"]);
  return show(call, await api(call).get<DeliveryDetails>(`/${id}/deliveries/${of}`), (found) => [
    ...describe(found),
    "",
    found.body,
  ]);
}

export async function redeliver(call: Call): Promise<number> {
  const [id, of] = names(call, ["endpoint", "delivery"]);
  const begun = await api(call).send<WebhookDelivery>("POST", `/${id}/deliveries/${of}/redeliver`, {});
  return show(call, begun, (each) => [`${each.id} (${each.type}): ${each.status}`]);
}

/** The tracker recovers so many in one call, so this calls until none is left. */
export async function recover(call: Call): Promise<number> {
  const [id] = names(call, ["endpoint"]);
  const since = momentOf(call.given.text("since"));
  const tracker = api(call);
  const { disabled } = await tracker.get<Webhook>(`/${id}`);
  if (disabled)
    throw new Refusal(
      [`${id} is disabled, so nothing would be sent: highwater webhooks enable ${id}`],
      EXIT_REFUSED,
    );
  let recovered = 0;
  for (let calls = 0; calls < RECOVERIES_MAX; calls++) {
    const page = await tracker.send<RecoverResponse>("POST", `/${id}/recover`, { since });
    recovered += page.recovered;
    if (!page.more) break;
  }
  return show(call, { id, since, recovered }, () => [
    `${String(recovered)} deliveries since ${since} are sent again`,
  ]);
}

interface Api {
  get<T>(path: string): Promise<T>;
  send<T>(method: "POST" | "PATCH" | "DELETE", path: string, body?: unknown): Promise<T>;
}

function api({ given, env }: Call): Api {
  const service = serviceAt(given.text("tracker"), ["HIGHWATER_TRACKERS", "HIGHWATER_URL"], env, "webhooks");
  const ask = async (path: string, init?: RequestInit): Promise<unknown> => {
    const text = await (await service.fetch(`/v1/webhooks${path}`, init)).text();
    return text === "" ? null : JSON.parse(text);
  };
  return {
    get: async <T>(path: string) => (await ask(path)) as T,
    send: async <T>(method: string, path: string, body?: unknown) =>
      (await ask(path, {
        method,
        ...(body !== undefined && {
          body: JSON.stringify(body),
          headers: { "content-type": "application/json" },
        }),
      })) as T,
  };
}

/** All positional arguments. Errors: Refusal, if there are others than these. */
function names<const Names extends readonly string[]>(
  { given: { positionals } }: Call,
  wanted: Names,
  pattern = ID,
): { [At in keyof Names]: string } {
  if (positionals.length !== wanted.length)
    throw badInput(`name ${wanted.map((name) => `the ${name}`).join(" and ")}, and nothing else`);
  for (const [at, name] of wanted.entries())
    if (!pattern.test(positionals[at] ?? "")) throw badInput(`${positionals[at] ?? ""} is no ${name}`);
  return positionals as unknown as { [At in keyof Names]: string };
}

function metadataOf(text: string): [string, string] {
  const [name = "", ...rest] = text.split("=");
  if (name === "" || rest.length === 0) throw badInput(`--filter ${text} must be NAME=VALUE`);
  return [name, rest.join("=")];
}

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time, or how long ago it is. */
function momentOf(text: string | null): string {
  const [, count, unit = ""] = /^([0-9]{1,6})([smhd])$/.exec(text ?? "") ?? [];
  if (count !== undefined)
    return new Date(realClock.wallMs() - Number(count) * (UNIT_MS[unit] ?? 0)).toISOString();
  if (
    text !== null &&
    /^\d{4}-\d\d-\d\dT.*(?:Z|[+-]\d\d:\d\d)$/.test(text) &&
    !Number.isNaN(Date.parse(text))
  )
    return text;
  throw badInput("--since must be a time like 2030-01-31T12:00:00Z, or a duration like 2h");
}

function stateOf({ disabled, disabledWhy, failingSince }: Webhook): string {
  if (disabled) return `disabled (${(disabledWhy ?? "").replaceAll("_", " ")})`;
  return failingSince === null ? "enabled" : `failing since ${failingSince}`;
}

function describe({ id, type, status, history }: DeliveryDetails): string[] {
  const attempts = history.map((each) => [
    String(each.n),
    each.at,
    each.status === null ? each.outcome : `${each.outcome} ${String(each.status)}`,
    `${String(each.durationMs)} ms`,
    (each.answer ?? "").replaceAll(/\s+/g, " ").slice(0, 100),
  ]);
  return [
    `${id} (${type}): ${status}`,
    ...(attempts.length === 0 ? [] : asTable([["attempt", "at", "outcome", "time", "answer"], ...attempts])),
  ];
}

function show<T>({ given, print }: Call, answer: T, asText: (answer: T) => readonly string[]): number {
  print(given.flag("json") ? JSON.stringify(answer, null, 2) : asText(answer).join("\n"));
  return EXIT.done;
}
