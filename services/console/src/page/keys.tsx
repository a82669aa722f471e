// For operators: the keys of all owners, and at which limits of exposure gateways refuse
// transactions. Only the command `highwater keys` and the gateways' settings change them.
import { useMemo, useState } from "preact/hooks";
import type { DescribedKey, ExposureLimits, KeyList, ReportedLimit } from "@highwater/protocol";
import { formatCount, formatDay } from "./format.ts";
import {
  amountText,
  countedText,
  expiresSoon,
  filterKeys,
  KEY_STATES,
  type KeyFilter,
  limitTone,
  ownLimitsText,
  silentGateways,
} from "./keys-and-limits.ts";
import { Badge, Choice, Notice, Section } from "./parts.tsx";
import { access, clock, type Session } from "./session.ts";
import { type Column, DataTable, ShowMore } from "./table.tsx";
import { useAnswer } from "./use-answer.ts";

const KEYS_MS = 5_000;
const LIMITS_MS = 2_000;
const ROWS = 100;
const TONES: Readonly<Record<DescribedKey["state"], string>> = {
  active: "good",
  expired: "waiting",
  revoked: "bad",
};

const LIMITS: readonly Column[] = [
  { title: "Gateway", kind: "head" },
  { title: "Counts", kind: "text" },
  { title: "Now" },
  { title: "Refuses at", kind: "number" },
  { title: "Limit" },
];

export function KeysView({ session }: { session: Session }) {
  const state = access.value;
  return (
    <>
      <Limits session={session} />
      {state.kind === "open" && state.hasKey ? (
        <Keys session={session} />
      ) : (
        <Section title="Keys">
          <p>
            This tracker asks for no key, so it lists none: anyone could read the list. Run{" "}
            <code>highwater keys list</code>.
          </p>
        </Section>
      )}
    </>
  );
}

function Limits({ session: { api, live } }: { session: Session }) {
  const { answer, fault } = useAnswer<ExposureLimits>(
    { ask: () => api.get("/v1/durability/exposure/limits"), everyMs: LIMITS_MS },
    [api],
  );
  const silent = answer === null ? [] : silentGateways(answer, live.exposure.value?.byGateway ?? {});
  return (
    <Section title="Limits of exposure">
      {fault !== "" && <Notice tone="bad">{fault}</Notice>}
      <p class="muted">
        Each gateway refuses fast transactions at a limit, and slows them down from 80% on. Limits are
        settings of gateways (<code>GATEWAY_EXPOSURE_…</code>), which report them here every five seconds.
      </p>
      {answer !== null && answer.gateways.length === 0 && (
        <Notice tone="neutral">No gateway has reported its limits to this tracker.</Notice>
      )}
      {answer !== null && answer.gateways.length > 0 && (
        <DataTable
          label="Limits of exposure"
          columns={LIMITS}
          rows={answer.gateways.flatMap(({ gateway, level, limits }) =>
            limits.map((limit) => ({
              key: `${gateway} ${limit.name}`,
              cells: limitCells(limit, { gateway, level }),
            })),
          )}
        />
      )}
      {silent.length > 0 && (
        <p class="muted">Have announced transactions, and not reported limits: {silent.join(", ")}.</p>
      )}
    </Section>
  );
}

function limitCells(limit: ReportedLimit, { gateway, level }: { gateway: string; level: string }) {
  const { name, value, bound, used } = limit;
  const isOfAnnouncements = !name.startsWith("exposure");
  const tone = limitTone(limit);
  return [
    gateway,
    `${countedText(limit)}${isOfAnnouncements ? "" : `, at ${level}`}`,
    <>
      {tone === "good" ? (
        amountText(name, used)
      ) : (
        <Badge tone={tone}>
          {amountText(name, used)} {tone === "bad" ? "refusing" : "slowing"}
        </Badge>
      )}
      <meter
        class="lag"
        min={0}
        max={Math.max(bound, 1)}
        value={Math.min(used, bound)}
        aria-label={`${gateway}: ${countedText(limit)}, used`}
      />
    </>,
    <>
      {amountText(name, bound)}
      {bound < value && <div class="muted">its share of {amountText(name, value)}</div>}
    </>,
    // A narrow page breaks it between its words.
    <code>
      {name.split(/(?=[A-Z])/).flatMap((word, at) => (at === 0 ? [word] : [<wbr key={at} />, word]))}
    </code>,
  ];
}

const KEYS: readonly Column[] = [
  { title: "Name and id", kind: "head" },
  { title: "State" },
  { title: "Owner and role" },
  { title: "Scopes", kind: "text" },
  { title: "Own limits", kind: "text" },
  { title: "Created" },
  { title: "Expires" },
];

function Keys({ session: { api } }: { session: Session }) {
  const { answer, fault } = useAnswer<KeyList>({ ask: () => api.get("/v1/keys"), everyMs: KEYS_MS }, [api]);
  const [filter, setFilter] = useState<KeyFilter>({ state: "active", search: "" });
  const [rows, setRows] = useState(ROWS);
  const found = useMemo(() => filterKeys(answer?.keys ?? [], filter), [answer, filter]);
  const change = (changed: KeyFilter): void => {
    setFilter(changed);
    setRows(ROWS);
  };
  return (
    <Section title="Keys">
      {fault !== "" && <Notice tone="bad">{fault}</Notice>}
      <p class="muted">
        As the primary's database has them. A secret is with its holder alone. To create, expire or revoke a
        key, run <code>highwater keys</code>.
      </p>
      <div class="row">
        <Choice<KeyFilter["state"]>
          id="key-state"
          label="State"
          value={filter.state}
          choices={KEY_STATES}
          none="All"
          onChoose={(state) => {
            change({ ...filter, state });
          }}
        />
        <div class="grow">
          <label for="key-search">Search: id, name, owner, role or scope</label>
          <input
            id="key-search"
            type="search"
            value={filter.search}
            autocomplete="off"
            spellcheck={false}
            onInput={({ currentTarget: { value } }) => {
              change({ ...filter, search: value });
            }}
          />
        </div>
      </div>
      {answer !== null && (
        <p role="status">
          {formatCount(found.length)} of {formatCount(answer.total)} {answer.total === 1 ? "key" : "keys"}
          {answer.total > answer.keys.length &&
            `; the page has the newest ${formatCount(answer.keys.length)}`}
        </p>
      )}
      <DataTable
        label="Keys"
        columns={KEYS}
        rows={found.slice(0, rows).map((key) => ({ key: key.id, cells: keyCells(key) }))}
      />
      <ShowMore shown={rows} total={found.length} step={ROWS} onShow={setRows} />
    </Section>
  );
}

function keyCells(key: DescribedKey) {
  const { id, state, name, owner, role, scopes, createdAt, expiresAt, revokedAt } = key;
  const soon = expiresSoon(key, clock.wallMs());
  return [
    <>
      {name}
      <div class="muted">
        <code>{id}</code>
      </div>
    </>,
    <>
      <Badge tone={TONES[state]}>{state}</Badge>
      {revokedAt !== null && <div class="muted">{formatDay(Date.parse(revokedAt))}</div>}
    </>,
    <>
      {owner}
      <div class="muted">{role}</div>
    </>,
    scopes.join(", "),
    ownLimitsText(key) || <span class="muted">the service's</span>,
    formatDay(Date.parse(createdAt)),
    <>
      {expiresAt === null ? <span class="muted">never</span> : formatDay(Date.parse(expiresAt))}
      {soon !== null && (
        <div>
          <Badge tone="waiting">{soon}</Badge>
        </div>
      )}
    </>,
  ];
}
