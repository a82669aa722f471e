// What is true now: the primary, nodes and levels, what is at risk, and stalls as they happen.
import { causeText } from "./epoch-text.ts";
import { formatBytes, formatCount, formatMs, formatTime, shortId } from "./format.ts";
import { LinkMap } from "./map.tsx";
import { type Happening, type Live } from "./live.ts";
import type { LevelRow, NodeRow } from "./metrics-text.ts";
import { Badge, Figure, Notice, Position, Section } from "./parts.tsx";
import { Plot } from "./plot.tsx";
import { served } from "./session.ts";
import { type Column, DataTable } from "./table.tsx";

/** So far behind at least is a node whose bar is full. */
const FULL_BYTES = 1_048_576;

/** The answer to a fast write. No level has a space in its name. */
const COMMITTED = "fast commit";

export function NowView({ live }: { live: Live }) {
  return (
    <>
      <Alarms live={live} />
      <div class="cards">
        <PrimaryCard live={live} />
        <RiskCard live={live} />
        <LevelsCard live={live} />
        <HappeningsCard happenings={live.happenings.value} />
        <NodesCard live={live} />
        <PlotsCard live={live} />
      </div>
    </>
  );
}

function Alarms({ live }: { live: Live }) {
  const measured = live.measured.value;
  const stalled = measured?.levels.filter(({ isStalled }) => isStalled).map(({ level }) => level) ?? [];
  return (
    <>
      {live.connection.value === "lost" && (
        <Notice tone="bad">
          The stream of this tracker is interrupted. The page connects again by itself; until then it shows
          the last state. {live.fault.value}
        </Notice>
      )}
      {live.isBlind.value && (
        <Notice tone="bad">
          This tracker is blind: the primary does not answer it. Another tracker may still see the primary.
        </Notice>
      )}
      {measured?.authority.isSplit === true && (
        <Notice tone="bad">
          Two nodes are writable, and neither has ended the other. An operator must choose one.
        </Notice>
      )}
      {measured?.authority.isSettled === false && !measured.authority.isSplit && (
        <Notice tone="bad">No node is known to be the primary.</Notice>
      )}
      {stalled.length > 0 && (
        <Notice tone="bad">
          Stalled: {stalled.join(", ")}. Transactions wait, and the mark does not rise.
        </Notice>
      )}
    </>
  );
}

const AUTHORITIES: Readonly<Record<string, string>> = {
  ancestry: "the ancestry of its epochs",
  operator: "an operator's command",
  lease: "the HA manager's lease",
};

function PrimaryCard({ live }: { live: Live }) {
  const current = live.epochs.value.at(-1);
  const node = live.measured.value?.nodes.find(({ node: name }) => name === current?.node);
  if (current === undefined)
    return (
      <Section title="Primary">
        <p>No epoch is known yet.</p>
      </Section>
    );
  const ageMs = live.measured.value?.epochAgeMs ?? null;
  const authority = current.commanded ? "operator" : served("authority");
  return (
    <Section title="Primary">
      <p class="primary">
        <strong>{current.node}</strong>{" "}
        {node === undefined || node.region === node.node ? "" : `in ${node.region}`}
      </p>
      <dl class="pairs">
        <dt>By authority of</dt>
        <dd>{AUTHORITIES[authority] ?? authority}</dd>
        <dt>Epoch</dt>
        <dd>
          {current.seq} <code>{shortId(current.id)}</code>, {causeText(current.cause)}
        </dd>
        {ageMs !== null && <dt>Followed for</dt>}
        {ageMs !== null && <dd>{formatMs(ageMs)}</dd>}
      </dl>
    </Section>
  );
}

function RiskCard({ live }: { live: Live }) {
  const risk = live.exposure.value;
  if (risk === null)
    return (
      <Section title="At risk">
        <p>Not known yet.</p>
      </Section>
    );
  const tone = risk.transactions > 0 ? "waiting" : "good";
  const regions = Object.entries(risk.byRegion).filter(([, count]) => count > 0);
  return (
    <Section title="At risk">
      <dl class="figures">
        <Figure label="Transactions" value={formatCount(risk.transactions)} tone={tone} />
        <Figure label="Log" value={formatBytes(BigInt(risk.bytes))} />
        {Object.entries(risk.values ?? {}).map(([unit, { amount }]) => (
          <Figure key={unit} label={`Value, ${unit}`} value={amount} tone="waiting" />
        ))}
        <Figure label="Oldest" value={risk.oldestMs === null ? "none" : formatMs(risk.oldestMs)} />
      </dl>
      <p class="muted">
        Committed and not durable at level {risk.level}: a failover may discard them.
        {regions.length > 0 &&
          ` By region: ${regions.map(([name, count]) => `${name} ${formatCount(count)}`).join(", ")}.`}
      </p>
    </Section>
  );
}

const MARKS: readonly Column[] = [
  { title: "Level", kind: "head" },
  { title: "Mark" },
  { title: "Behind", kind: "number" },
  { title: "Waiting", kind: "number" },
  { title: "Durable after", kind: "number" },
  { title: "State" },
];

function LevelsCard({ live }: { live: Live }) {
  const marks = live.marks.value;
  const known = new Map(live.measured.value?.levels.map((row) => [row.level, row]));
  const last = live.points.value.findLast(({ durableMs }) => durableMs.some((value) => value !== null));
  const rows = live.levels.value.map((level, at) => ({
    key: level,
    cells: levelCells({
      level,
      mark: marks?.levels[level] ?? null,
      row: known.get(level),
      durableMs: last?.durableMs[at] ?? null,
    }),
  }));
  return (
    <Section title="Marks">
      <DataTable label="Marks" columns={MARKS} rows={rows} />
    </Section>
  );
}

function levelCells(of: {
  level: string;
  mark: string | null;
  row: LevelRow | undefined;
  durableMs: number | null;
}) {
  const { level, mark, row, durableMs } = of;
  return [
    level,
    mark === null ? "none" : <Position offset={mark} />,
    row?.lagBytes == null ? "" : formatBytes(row.lagBytes),
    row?.pending == null ? "" : formatCount(row.pending),
    durableMs === null ? "" : formatMs(durableMs),
    row?.isStalled === true ? <Badge tone="bad">stalled</Badge> : <Badge tone="good">rising</Badge>,
  ];
}

const NODES: readonly Column[] = [
  { title: "Node", kind: "head" },
  { title: "Region" },
  { title: "Role" },
  { title: "Flushed" },
  { title: "Behind", kind: "number" },
  { title: "For", kind: "number" },
  { title: "Answers" },
];

function NodesCard({ live }: { live: Live }) {
  const measured = live.measured.value;
  if (measured === null)
    return (
      <Section title="Nodes" wide>
        <p>
          {live.metricsFault.value === ""
            ? "Reading the tracker's metrics."
            : `Nodes come from the tracker's /metrics, which this page cannot read: ${live.metricsFault.value}`}
        </p>
      </Section>
    );
  const most = Math.max(FULL_BYTES, ...measured.nodes.map(({ lagBytes }) => lagBytes ?? 0));
  return (
    <Section title="Nodes" wide>
      <LinkMap nodes={measured.nodes} />
      <DataTable
        label="Nodes"
        columns={NODES}
        rows={measured.nodes.map((row) => ({ key: row.node, cells: nodeCells(row, most) }))}
      />
    </Section>
  );
}

function nodeCells({ node, region, isPrimary, position, lagBytes, lagMs, isAlive }: NodeRow, most: number) {
  return [
    node,
    region,
    isPrimary ? <Badge tone="accent">primary</Badge> : "replica",
    position === null ? "not known" : <Position offset={position} />,
    lagBytes === null || isPrimary ? (
      ""
    ) : (
      <>
        {formatBytes(lagBytes)}
        <meter class="lag" min={0} max={most} value={lagBytes} aria-label={`Log that ${node} lacks`} />
      </>
    ),
    lagMs === null || isPrimary ? "" : formatMs(lagMs),
    isAlive ? <Badge tone="good">yes</Badge> : <Badge tone="bad">no</Badge>,
  ];
}

function PlotsCard({ live }: { live: Live }) {
  const [levels, points] = [live.levels.value, live.points.value];
  return (
    <Section title="Latency and lag" wide>
      <div class="plots">
        <Plot
          title="Time until committed and until durable, median"
          lines={[...levels, COMMITTED]}
          points={points}
          valuesOf={({ durableMs, commitMs }) => [...durableMs, commitMs]}
          format={formatMs}
          base={10}
        />
        <Plot
          title="Log above the mark"
          lines={levels}
          points={points}
          valuesOf={({ lagBytes }) => lagBytes}
          format={formatBytes}
          base={2}
        />
      </div>
    </Section>
  );
}

function HappeningsCard({ happenings }: { happenings: readonly Happening[] }) {
  return (
    <Section title="Since the page is open">
      {happenings.length === 0 ? (
        <p class="muted">No stall and no new epoch.</p>
      ) : (
        <ol class="happenings">
          {happenings.map(({ atMs, text, isBad }) => (
            <li key={`${String(atMs)} ${text}`}>
              <time>{formatTime(atMs)}</time> <span class={isBad ? "bad-text" : ""}>{text}</span>
            </li>
          ))}
        </ol>
      )}
    </Section>
  );
}
