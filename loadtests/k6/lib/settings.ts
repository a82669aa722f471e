// Reads the settings of a run from its environment (`k6 run -e NAME=value`), with the limits that
// the run has to meet.

/** One region, as its clients see it. */
export interface Endpoint {
  readonly gateway: string;
  readonly tracker: string;
}

function text(name: string, otherwise: string): string {
  return __ENV[name] ?? otherwise;
}

export function number(name: string, otherwise: number): number {
  const given = __ENV[name];
  if (given === undefined || given === "") return otherwise;
  if (!Number.isFinite(Number(given))) throw new Error(`${name} is not a number: ${given}`);
  return Number(given);
}

/** In milliseconds; null for `none`, which is for a machine with other work that k6 cannot see. */
function limitMs(name: string, otherwise: number): number | null {
  return __ENV[name] === "none" ? null : number(name, otherwise);
}

const gateways = text("GATEWAYS", "http://127.0.0.1:4600").split(",");
const trackers = text("TRACKERS", "http://127.0.0.1:4601").split(",");

/** Nearest first. Behind an edge the same address serves both. */
export const ENDPOINTS: readonly Endpoint[] = gateways.map((gateway, at) => ({
  gateway,
  tracker: trackers[at] ?? trackers[0] ?? gateway,
}));

/** An API key, where the service asks for one. */
export const API_KEY = text("API_KEY", "");
/** The level at which a transaction counts as durable. */
export const LEVEL = text("LEVEL", "region");
/** Rows of `load_account`, which the driver makes. */
export const ACCOUNTS = number("ACCOUNTS", 10_000);
/**
 * The percentage of safe transactions. The others are fast, and the script waits for their
 * durability after the answer.
 */
export const SAFE_PERCENT = number("SAFE_PERCENT", 20);
/** The percentage of transactions that only read. */
export const READ_PERCENT = number("READ_PERCENT", 10);
/** Whether the script prints the outcome of every write, for the comparison with the table. */
export const REPORTS = text("REPORT", "") !== "";
/** How long a transaction may be tried, and its verdict waited for. */
export const PATIENCE_S = number("PATIENCE_S", 30);

/**
 * The time for what is in flight at the end of a scenario: the two waits of a transaction, and the
 * last request of each.
 */
export const GRACEFUL_STOP = `${String(2 * PATIENCE_S + 25)}s`;

export const LIMITS = {
  commitP95Ms: limitMs("COMMIT_P95_MS", 50),
  durableP95Ms: limitMs("DURABLE_P95_MS", 250),
  errorRateMax: number("ERROR_RATE", 0.001),
  lostMax: number("LOST_MAX", 0),
};
