// The webhooks of the key's owner: endpoints, their deliveries, and what can be sent again.
import { useEffect, useRef, useState } from "preact/hooks";
import type {
  DeliveryDetails,
  DeliveryList,
  DeliveryStatus,
  RecoverResponse,
  Webhook,
  WebhookDelivery,
  WebhookList,
} from "@highwater/protocol";
import { type Api, messageOf } from "./api.ts";
import { formatCount, formatDay, formatMs, formatTime } from "./format.ts";
import { Badge, Choice, Notice, Section, useFocus } from "./parts.tsx";
import { clock, type Session } from "./session.ts";
import { type Column, DataTable } from "./table.tsx";
import { useAnswer } from "./use-answer.ts";

const REFRESH_MS = 3_000;
const HOUR_MS = 3_600_000;
/** From when on failed deliveries are sent again. */
const SPANS_MS = { "1 hour": HOUR_MS, "24 hours": 24 * HOUR_MS, "7 days": 168 * HOUR_MS } as const;
type Span = keyof typeof SPANS_MS;
const SPANS = Object.keys(SPANS_MS) as Span[];
const STATUSES = ["pending", "delivered", "failed", "held"] as const satisfies readonly DeliveryStatus[];
const TONES: Readonly<Record<DeliveryStatus, string>> = {
  pending: "waiting",
  delivered: "good",
  failed: "bad",
  held: "bad",
};

/** To the second: attempts are minutes apart. */
const timeOf = (text: string): string =>
  `${formatDay(Date.parse(text))} ${formatTime(Date.parse(text)).slice(0, "00:00:00".length)}`;

/** Reads the path again and again while the view is open. `again` does so at once. */
function useRead<T>(api: Api, path: string): { answer: T | null; fault: string; again: () => void } {
  const [turn, setTurn] = useState(0);
  const found = useAnswer<T>({ ask: () => api.get<T>(path), everyMs: REFRESH_MS }, [api, path, turn]);
  return {
    ...found,
    again: () => {
      setTurn(turn + 1);
    },
  };
}

/** `argument`: the endpoint whose deliveries are shown. */
export function WebhooksView({ session, argument }: { session: Session; argument: string }) {
  const { answer, fault, again } = useRead<WebhookList>(session.api, "/v1/webhooks");
  const chosen = answer?.webhooks.find(({ id }) => id === argument);
  /** Named by the address when the view was opened. */
  const opened = useRef(argument);
  useEffect(() => {
    if (opened.current !== argument) opened.current = "";
  }, [argument]);
  return (
    <>
      {fault !== "" && <Notice tone="bad">{fault}</Notice>}
      {answer !== null && <Endpoints session={session} webhooks={answer.webhooks} onChanged={again} />}
      {chosen !== undefined && (
        // The focus follows a choice in the list. At first it stays on the view's heading.
        <Deliveries
          key={chosen.id}
          session={session}
          webhook={chosen}
          takesFocus={opened.current !== argument}
        />
      )}
    </>
  );
}

/** Runs one call at a time, and says how it ended. */
function useAction(onDone: () => void): {
  said: string;
  run: (what: string, call: () => Promise<unknown>) => void;
} {
  const [said, say] = useState("");
  const run = (what: string, call: () => Promise<unknown>): void => {
    say(`${what}: sending.`);
    call().then(
      (result) => {
        say(`${what}: ${typeof result === "string" ? result : "done."}`);
        onDone();
      },
      (cause: unknown) => {
        say(`${what}: ${messageOf(cause)}`);
      },
    );
  };
  return { said, run };
}

const ENDPOINTS: readonly Column[] = [
  { title: "Address", kind: "head" },
  { title: "State" },
  { title: "Events", kind: "text" },
  { title: "Actions" },
];

function Endpoints(props: { session: Session; webhooks: readonly Webhook[]; onChanged: () => void }) {
  const { session, webhooks, onChanged } = props;
  const { said, run } = useAction(onChanged);
  if (webhooks.length === 0)
    return (
      <Section title="Endpoints">
        <p>
          This owner has no endpoint. <code>POST /v1/webhooks</code> creates one.
        </p>
      </Section>
    );
  return (
    <Section title="Endpoints">
      <DataTable
        label="Endpoints"
        columns={ENDPOINTS}
        rows={webhooks.map((webhook) => ({
          key: webhook.id,
          cells: endpointCells(webhook, (what, method, path, body) => {
            run(what, () => session.api.send(method, `/v1/webhooks/${webhook.id}${path}`, body));
          }),
        }))}
      />
      <p role="status">{said}</p>
    </Section>
  );
}

function endpointCells(
  webhook: Webhook,
  send: (what: string, method: "POST" | "PATCH", path: string, body: object) => void,
) {
  const { id, url, description, events, filter, disabled } = webhook;
  const change = disabled ? "Enable" : "Disable";
  return [
    <>
      <a href={`#/webhooks/${id}`}>{url}</a>
      <div class="muted">{description}</div>
    </>,
    <EndpointState webhook={webhook} />,
    <>
      {events.join(", ")}
      {Object.entries(filter).map(([name, value]) => (
        <div key={name} class="muted">
          only {name}={value}
        </div>
      ))}
    </>,
    <div class="actions">
      <button
        type="button"
        aria-label={`Send a test message to ${url}`}
        onClick={() => {
          send("Test message", "POST", "/test", {});
        }}
      >
        Test
      </button>
      <button
        type="button"
        aria-label={`${change} ${url}`}
        onClick={() => {
          send(change, "PATCH", "", { disabled: !disabled });
        }}
      >
        {change}
      </button>
    </div>,
  ];
}

function EndpointState({ webhook: { disabled, disabledWhy, failingSince } }: { webhook: Webhook }) {
  if (disabled) return <Badge tone="bad">disabled: {(disabledWhy ?? "").replaceAll("_", " ")}</Badge>;
  if (failingSince !== null)
    return (
      <Badge tone="waiting">
        failing since <time>{timeOf(failingSince)}</time>
      </Badge>
    );
  return <Badge tone="good">enabled</Badge>;
}

const DELIVERIES: readonly Column[] = [
  { title: "Event", kind: "head" },
  { title: "Created" },
  { title: "Status" },
  { title: "Attempts", kind: "number" },
  { title: "Next" },
  { title: "Actions" },
];

function Deliveries(props: { session: Session; webhook: Webhook; takesFocus: boolean }) {
  const { session, webhook, takesFocus } = props;
  const [status, setStatus] = useState<DeliveryStatus | "">("");
  const [span, setSpan] = useState<Span>("24 hours");
  /** `next` of each page before the one that is shown. */
  const [before, setBefore] = useState<readonly string[]>([]);
  const [opened, open] = useState<string | null>(null);
  const path = `/v1/webhooks/${webhook.id}`;
  const query = new URLSearchParams({
    ...(status === "" ? {} : { status }),
    ...(before.length === 0 ? {} : { before: before.at(-1) ?? "" }),
  });
  const { answer, fault, again } = useRead<DeliveryList>(
    session.api,
    `${path}/deliveries?${query.toString()}`,
  );
  const { said, run } = useAction(again);
  const recover = async (): Promise<string> => {
    const since = new Date(clock.wallMs() - SPANS_MS[span]).toISOString();
    const { recovered, more } = await session.api.send<RecoverResponse>("POST", `${path}/recover`, { since });
    return `${formatCount(recovered)} will be sent again${more ? "; there are more" : ""}.`;
  };
  return (
    <Section title={`Deliveries to ${webhook.url}`} takesFocus={takesFocus}>
      {fault !== "" && <Notice tone="bad">{fault}</Notice>}
      <div class="row">
        <Choice<DeliveryStatus | "">
          id="status"
          label="Status"
          value={status}
          choices={STATUSES}
          none="All"
          onChoose={(chosen) => {
            setStatus(chosen);
            setBefore([]);
          }}
        />
        <Choice<Span> id="span" label="Failed in the last" value={span} choices={SPANS} onChoose={setSpan} />
        <button
          type="button"
          onClick={() => {
            run("Recover", recover);
          }}
        >
          Send these again
        </button>
      </div>
      <p role="status">{said}</p>
      <DataTable
        label="Deliveries"
        columns={DELIVERIES}
        rows={(answer?.deliveries ?? []).map((delivery) => ({
          key: delivery.id,
          cells: deliveryCells(delivery, {
            onOpen: () => {
              open(delivery.id);
            },
            onRedeliver: () => {
              run("Send again", () =>
                session.api.send("POST", `${path}/deliveries/${delivery.id}/redeliver`, {}),
              );
            },
          }),
        }))}
      />
      {answer?.deliveries.length === 0 && <p class="muted">No delivery.</p>}
      <Pages before={before} next={answer?.next ?? null} onTurn={setBefore} />
      {opened !== null && <Attempts key={opened} session={session} path={`${path}/deliveries/${opened}`} />}
    </Section>
  );
}

/** Nothing where all fits on one page. */
function Pages(props: {
  before: readonly string[];
  next: string | null;
  onTurn: (before: readonly string[]) => void;
}) {
  const { before, next, onTurn } = props;
  if (before.length === 0 && next === null) return null;
  return (
    <div class="row">
      <button
        type="button"
        disabled={before.length === 0}
        onClick={() => {
          onTurn(before.slice(0, -1));
        }}
      >
        Newer
      </button>
      <button
        type="button"
        disabled={next === null}
        onClick={() => {
          if (next !== null) onTurn([...before, next]);
        }}
      >
        Older
      </button>
    </div>
  );
}

function deliveryCells(delivery: WebhookDelivery, on: { onOpen: () => void; onRedeliver: () => void }) {
  const { id, type, status, attempts, createdAt, nextAttemptAt } = delivery;
  return [
    type,
    timeOf(createdAt),
    <Badge tone={TONES[status]}>{status}</Badge>,
    attempts,
    nextAttemptAt === null ? "" : timeOf(nextAttemptAt),
    <div class="actions">
      <button type="button" onClick={on.onOpen} aria-label={`Show the attempts of delivery ${id}`}>
        Attempts
      </button>
      <button type="button" onClick={on.onRedeliver} aria-label={`Send again: delivery ${id}`}>
        Send again
      </button>
    </div>,
  ];
}

const ATTEMPTS: readonly Column[] = [
  { title: "Attempt", kind: "head" },
  { title: "Time" },
  { title: "Took", kind: "number" },
  { title: "Outcome" },
  { title: "Answer", kind: "text" },
];

/** Opened by a button above: the focus follows. */
function Attempts({ session, path }: { session: Session; path: string }) {
  const { answer, fault } = useRead<DeliveryDetails>(session.api, path);
  const heading = useFocus<HTMLHeadingElement>(answer !== null);
  if (answer === null) return <p role="status">{fault === "" ? "Reading the delivery." : fault}</p>;
  return (
    <>
      <h3 ref={heading} tabIndex={-1}>
        Attempts of <code>{answer.id}</code>
      </h3>
      <DataTable
        label="Attempts"
        columns={ATTEMPTS}
        rows={answer.history.map(({ n, at, durationMs, outcome, status, answer: text }) => ({
          key: String(n),
          cells: [n, timeOf(at), formatMs(durationMs), `${outcome} ${String(status ?? "")}`, text],
        }))}
      />
      <pre tabIndex={0} aria-label="The message">
        {answer.body}
      </pre>
    </>
  );
}
