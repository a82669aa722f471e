// Reads what the console shows from the text of GET /metrics: nodes, levels and the times until
// transactions were committed and durable.
import { type Buckets } from "@highwater/runtime";

/** The metrics that the console reads; a test compares them with the catalogue. */
export const METRICS = {
  alive: "highwater_node_alive",
  primary: "highwater_node_primary",
  position: "highwater_node_position_bytes",
  lagBytes: "highwater_replication_lag_bytes",
  lagSeconds: "highwater_replication_lag_seconds",
  markLag: "highwater_mark_lag_bytes",
  pending: "highwater_pending_transactions",
  stalled: "highwater_level_stalled",
  commit: "highwater_reported_commit_seconds",
  durable: "highwater_durability_lag_seconds",
  splitBrain: "highwater_split_brain",
  settled: "highwater_authority_settled",
  epochAge: "highwater_epoch_age_seconds",
} as const;

type Labels = Readonly<Record<string, string>>;

interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

export type Samples = ReadonlyMap<string, readonly Sample[]>;

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string): Samples {
  const samples = new Map<string, Sample[]>();
  for (const line of text.split("\n")) {
    if (line.startsWith("#")) continue;
    const [, name, labelText = "", value] = LINE.exec(line) ?? [];
    if (name === undefined) continue;
    const labels = Object.fromEntries(
      Array.from(labelText.matchAll(LABEL), ([, key = "", text = ""]) => [key, unescape(text)] as const),
    );
    const known = samples.get(name) ?? [];
    known.push({ labels, value: Number(value === "+Inf" ? Infinity : value) });
    samples.set(name, known);
  }
  return samples;
}

function unescape(text: string): string {
  return text.replaceAll(/\\(.)/g, (_, letter: string) => (letter === "n" ? "\n" : letter));
}

function valueOf(samples: Samples, name: string, wanted: Labels = {}): number | null {
  const isWanted = ({ labels }: Sample): boolean =>
    Object.entries(wanted).every(([key, value]) => labels[key] === value);
  return samples.get(name)?.find(isWanted)?.value ?? null;
}

export interface NodeRow {
  readonly node: string;
  readonly region: string;
  readonly zone: string;
  readonly isAlive: boolean;
  readonly isPrimary: boolean;
  /** Null while it is not known. */
  readonly position: number | null;
  readonly lagBytes: number | null;
  readonly lagMs: number | null;
}

/** By region; the primary's region first. */
export function nodesIn(samples: Samples): NodeRow[] {
  const rows = (samples.get(METRICS.alive) ?? []).map(({ labels, value }): NodeRow => {
    const { node = "", region = "", zone = "" } = labels;
    const of = (name: string): number | null => valueOf(samples, name, { node });
    const lagSeconds = of(METRICS.lagSeconds);
    return {
      node,
      region,
      zone,
      isAlive: value === 1,
      isPrimary: of(METRICS.primary) === 1,
      position: of(METRICS.position),
      lagBytes: of(METRICS.lagBytes),
      lagMs: lagSeconds === null ? null : lagSeconds * 1_000,
    };
  });
  const home = rows.find(({ isPrimary }) => isPrimary)?.region;
  const rank = (row: NodeRow): string =>
    `${row.region === home ? "0" : "1"} ${row.region} ${row.isPrimary ? "0" : "1"} ${row.node}`;
  return rows.sort((one, other) => (rank(one) < rank(other) ? -1 : 1));
}

export interface LevelRow {
  readonly level: string;
  readonly lagBytes: number | null;
  readonly pending: number | null;
  readonly isStalled: boolean;
}

export function levelsIn(samples: Samples, levels: readonly string[]): LevelRow[] {
  return levels.map((level) => ({
    level,
    lagBytes: valueOf(samples, METRICS.markLag, { level }),
    pending: valueOf(samples, METRICS.pending, { level }),
    isStalled: valueOf(samples, METRICS.stalled, { level }) === 1,
  }));
}

export interface Authority {
  readonly isSettled: boolean;
  readonly isSplit: boolean;
}

export function authorityIn(samples: Samples): Authority {
  return {
    isSettled: valueOf(samples, METRICS.settled) !== 0,
    isSplit: valueOf(samples, METRICS.splitBrain) === 1,
  };
}

/** How long the tracker has followed the current epoch. Null: it follows none yet. */
export function epochAgeIn(samples: Samples): number | null {
  const seconds = valueOf(samples, METRICS.epochAge);
  return seconds === null ? null : seconds * 1_000;
}

export function bucketsIn(samples: Samples, level: string): Buckets {
  return (samples.get(`${METRICS.durable}_bucket`) ?? [])
    .filter(({ labels }) => labels["level"] === level)
    .map(({ labels, value }) => {
      const { le = "" } = labels;
      return { bound: le === "+Inf" ? Infinity : Number(le), count: value };
    })
    .sort((one, other) => one.bound - other.bound);
}

/**
 * How long a fast commit takes at the median gateway of those that committed something lately, in
 * milliseconds. Null: none did.
 */
export function commitIn(samples: Samples): number | null {
  const seconds = (samples.get(METRICS.commit) ?? []).map(({ value }) => value).sort((a, b) => a - b);
  const median = seconds[Math.floor(seconds.length / 2)];
  return median === undefined ? null : median * 1_000;
}
