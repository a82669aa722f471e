// After a failover: which epochs began, what each discarded, and the recorded events with filters
// and export.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { causeText } from "./epoch-text.ts";
import {
  type AnyEvent,
  describeEvent,
  EVENT_TYPES,
  type EventFilter,
  type EventType,
  type Failover,
  failoversIn,
  filterEvents,
  isOfTransaction,
  newestFirst,
  toJsonLines,
} from "./event-filter.ts";
import { MAX_EVENTS } from "./event-log.ts";
import { formatCount, formatDay, formatTime, shortId } from "./format.ts";
import { LostTransactions } from "./lost.tsx";
import { Badge, Choice, Notice, Position, save, Section } from "./parts.tsx";
import { type Session } from "./session.ts";
import { type Column, DataTable, ShowMore } from "./table.tsx";

const ROWS = 50;

export function AfterView({ session }: { session: Session }) {
  const { log } = session;
  useEffect(() => {
    log.open();
  }, [log]);
  return (
    <>
      {log.state.value === "lost" && (
        <Notice tone="bad">The events cannot be read now; the page tries again. {log.fault.value}</Notice>
      )}
      {log.isShortened.value && (
        <Notice tone="waiting">
          Older events are missing: the tracker has dropped them, or there are more than{" "}
          {formatCount(MAX_EVENTS)}.
        </Notice>
      )}
      <Failovers session={session} />
      <LostTransactions session={session} />
      <Events session={session} />
    </>
  );
}

const EPOCHS: readonly Column[] = [
  { title: "Epoch", kind: "head" },
  { title: "Began" },
  { title: "Primary" },
  { title: "Cause" },
  { title: "Kept up to" },
  { title: "Lost", kind: "number" },
  { title: "Broken", kind: "number" },
  { title: "Unlisted", kind: "number" },
];

function Failovers({ session }: { session: Session }) {
  const events = session.log.events.value;
  const failovers = useMemo(() => failoversIn(events), [events]);
  return (
    <Section title="Epochs">
      {failovers.length === 0 ? (
        <p class="muted">The first epoch is still the current one: nothing was discarded.</p>
      ) : (
        <DataTable
          label="Epochs"
          columns={EPOCHS}
          rows={failovers.map((failover) => ({ key: failover.data.epoch, cells: failoverCells(failover) }))}
        />
      )}
      {failovers.some(({ data }) => !data.complete) && (
        <p class="muted">
          * A transaction that a lost gateway announced to a lost tracker alone can be missing without an
          event.
        </p>
      )}
    </Section>
  );
}

function failoverCells({ atMs, data, lost, broken }: Failover) {
  const discarded = (count: number) => (count === 0 ? "0" : <Badge tone="bad">{formatCount(count)}</Badge>);
  return [
    <>
      {data.seq} <code>{shortId(data.epoch)}</code>
    </>,
    `${formatDay(atMs)} ${formatTime(atMs)}`,
    data.node,
    causeText(data.cause),
    <Position offset={data.forkOffset} />,
    discarded(lost),
    discarded(broken),
    `${data.unlisted === 0 ? "0" : `at most ${formatCount(data.unlisted)}`}${data.complete ? "" : " *"}`,
  ];
}

const EVENTS: readonly Column[] = [
  { title: "Event", kind: "head" },
  { title: "Time" },
  { title: "Transaction" },
  { title: "Cause", kind: "text" },
  { title: "Metadata", kind: "text" },
];

function Events({ session }: { session: Session }) {
  const [filter, setFilter] = useState<EventFilter>({ type: "", search: "" });
  const [rows, setRows] = useState(ROWS);
  const { log } = session;
  const [events, durable] = [log.events.value, log.durable.value];
  const found = useMemo(
    () => newestFirst(filterEvents([...events, ...durable], filter)),
    [events, durable, filter],
  );
  const change = (changed: EventFilter): void => {
    setFilter(changed);
    setRows(ROWS);
  };
  const count = `${formatCount(found.length)} ${found.length === 1 ? "event" : "events"}`;
  return (
    <Section title="Events">
      <Filters session={session} filter={filter} onChange={change} />
      <FilterResult filter={filter} count={count} />
      <div class="row">
        <p class="grow">
          {log.state.value === "reading" ? "Reading. " : ""}
          {count}
        </p>
        <button
          type="button"
          disabled={found.length === 0}
          onClick={() => {
            save("highwater-events.jsonl", toJsonLines(found));
          }}
        >
          Export as JSON lines
        </button>
      </div>
      <DataTable
        label="Events"
        columns={EVENTS}
        rows={found.slice(0, rows).map((event) => ({
          key: "id" in event ? event.id : `${event.data.id} ${event.at}`,
          cells: eventCells(event),
        }))}
      />
      <ShowMore shown={rows} total={found.length} step={ROWS} onShow={setRows} />
    </Section>
  );
}

/** For screen readers: what a filter found, but not each event that comes later. */
function FilterResult({ filter, count }: { filter: EventFilter; count: string }) {
  const [said, say] = useState("");
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) say(count);
    isFirst.current = false;
  }, [filter]);
  return (
    <p class="unseen" role="status">
      {said}
    </p>
  );
}

function Filters(props: { session: Session; filter: EventFilter; onChange: (filter: EventFilter) => void }) {
  const { session, filter, onChange } = props;
  const levels = session.live.levels.value;
  return (
    <div class="row">
      <Choice<EventType | "">
        id="type"
        label="Type"
        value={filter.type}
        choices={EVENT_TYPES}
        none="All types"
        onChoose={(type) => {
          onChange({ ...filter, type });
        }}
      />
      <div class="grow">
        <label for="search">Search: an id, or name=value of the metadata</label>
        <input
          id="search"
          type="search"
          value={filter.search}
          autocomplete="off"
          spellcheck={false}
          onInput={({ currentTarget: { value } }) => {
            onChange({ ...filter, search: value });
          }}
        />
      </div>
      <Choice
        id="durable"
        label="Show as they become durable at"
        value={session.log.durableLevel ?? ""}
        choices={levels}
        none="no level"
        onChoose={(level) => {
          session.log.wantDurable(level === "" ? null : level);
        }}
      />
    </div>
  );
}

const TONES: Partial<Record<EventType, string>> = {
  "transaction.lost": "bad",
  "transaction.broken": "bad",
  "promise.broken": "bad",
  "transactions.unlisted": "bad",
  "transaction.delayed": "waiting",
  "durability.stalled": "waiting",
  "transaction.durable": "good",
  "durability.recovered": "good",
};

function eventCells(event: AnyEvent) {
  const atMs = Date.parse(event.at);
  const data = isOfTransaction(event) ? event.data : null;
  const metadata = Object.entries(data?.metadata ?? {}).map(([name, value]) => `${name}=${value}`);
  return [
    <Badge tone={TONES[event.type] ?? ""}>{event.type}</Badge>,
    `${formatDay(atMs)} ${formatTime(atMs)}`,
    data === null ? (
      ""
    ) : (
      <a href={`#/transaction/${data.id}`}>
        <code>{data.id}</code>
      </a>
    ),
    describeEvent(event),
    metadata.join(", "),
  ];
}
