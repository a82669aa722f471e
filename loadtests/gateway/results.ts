// From turns to the result of `make bench-gateway`: ratios and bars.
import { type Bar, bar, type Result } from "../rounds/bars.ts";
import { cellsOf, compared, figureOf, middleOf } from "../rounds/figures.ts";
import type { Turn } from "../rounds/turns.ts";
import type { Language } from "../sdk/subject.ts";

const SERVERS = ["gateway", "tracker", "primary", "replica"];
/** Of a table. */
export const COLUMNS = {
  figures: ["per_second", "p50_ms", "p99_ms", "failed_tries"],
  parts: [...SERVERS, "client"],
};

/** The transaction of two statements. */
export const ONE = "1 client";
export const MANY = "64 clients";
/** The update alone. */
export const ONE_UPDATE = "1 client, one statement";
export const MANY_UPDATES = "128 clients, one statement";

/** Through the gateway, answered at the commit point or at the durability point. */
export const FAST = "fast";
export const SAFE = "safe";
/** Fast, and its contents are kept. */
export const KEPT = "kept";
/** By node-postgres, with named statements or without. */
export const PREPARED = "prepared";
export const UNPREPARED = "unprepared";
export const SDK_ROWS: Readonly<Record<Language, string>> = {
  typescript: "TypeScript SDK",
  python_async: "Python SDK async",
  python_sync: "Python SDK sync",
};

const BARS = {
  throughputMin: 1.3,
  addedP50MsMax: 0.35,
  cpuUsMax: { [FAST]: 165, [SAFE]: 215 },
  keptToFastMax: 1.1,
  sdkPerSecondMin: { typescript: 3_500, python_async: 1_800, python_sync: 900 },
};

/** What was not measured meets no bar; an SDK that is not here has none. */
export function summarize(turns: readonly Turn[]): Result {
  const cells = cellsOf(turns);
  const rate = (workload: string, of: string, to: string): number =>
    compared(turns, { workload, of, to, figure: "per_second" });
  const above = (workload: string, of: string, to: string): number =>
    compared(turns, { workload, of, to, figure: "p50_ms" }, (one, other) => one - other);
  const ratios = {
    "64 clients, fast to prepared": rate(MANY, FAST, PREPARED),
    "64 clients, fast to unprepared": rate(MANY, FAST, UNPREPARED),
    "64 clients, TypeScript SDK to prepared": rate(MANY, SDK_ROWS.typescript, PREPARED),
    "128 clients, one statement, safe to fast": rate(MANY_UPDATES, SAFE, FAST),
    "128 clients, one statement, processor of kept to fast":
      middleOf(turns, { workload: MANY_UPDATES, row: KEPT }, serversUs) /
      middleOf(turns, { workload: MANY_UPDATES, row: FAST }, serversUs),
    "1 client, fast p50 in ms above prepared": above(ONE, FAST, PREPARED),
    "1 client, one statement, fast p50 in ms above prepared": above(ONE_UPDATE, FAST, PREPARED),
  };
  const bars = [
    bar(
      `64 clients: fast at least ${String(BARS.throughputMin)} times prepared node-postgres`,
      ratios["64 clients, fast to prepared"],
      { min: BARS.throughputMin },
    ),
    bar(
      `1 client, one statement: fast p50 at most ${String(BARS.addedP50MsMax)} ms above an asynchronous commit`,
      ratios["1 client, one statement, fast p50 in ms above prepared"],
      { max: BARS.addedP50MsMax },
    ),
    ...Object.entries(BARS.cpuUsMax).map(([row, max]) =>
      bar(
        `128 clients, one statement: processor of ${SERVERS.join(", ")} for a ${row} one at most ${String(max)} µs`,
        middleOf(turns, { workload: MANY_UPDATES, row }, serversUs),
        { max },
      ),
    ),
    bar(
      `128 clients, one statement: processor for a kept one at most ${String(BARS.keptToFastMax)} times that for a fast one`,
      ratios["128 clients, one statement, processor of kept to fast"],
      { max: BARS.keptToFastMax },
    ),
    ...(Object.keys(SDK_ROWS) as Language[]).flatMap((language): Bar[] => {
      const [row, min] = [SDK_ROWS[language], BARS.sdkPerSecondMin[language]];
      const cell = cells.find((each) => each.workload === MANY && each.row === row);
      const measured = cell?.figures["per_second"]?.median;
      return measured === undefined
        ? []
        : [bar(`64 clients: ${row} at least ${String(min)} a second`, measured, { min })];
    }),
  ];
  return { cells, ratios, bars, turns };
}

function serversUs(turn: Turn): number {
  return SERVERS.reduce((sum, part) => sum + figureOf(turn, `${part} µs`), 0);
}
