// What a run is told by its environment (`k6 run -e NAME=value`), and the limits that it is held against.

/** Of one region, as its clients see it. */
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

/** In milliseconds; null where it is said that there is `none`, because the machine has other work that nobody can see. */
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
/** At which a transaction counts as durable. */
export const LEVEL = text("LEVEL", "region");
/** Rows of `load_account`, which the driver makes. */
export const ACCOUNTS = number("ACCOUNTS", 10_000);
/** Of a hundred transactions so many are safe; the others are fast, and their durability is waited for behind the answer. */
export const SAFE_PERCENT = number("SAFE_PERCENT", 20);
/** Of a hundred transactions so many only read. */
export const READ_PERCENT = number("READ_PERCENT", 10);
/** Tells what became of every write, for whoever compares it with the table. */
export const REPORTS = text("REPORT", "") !== "";
/** How long a transaction may be tried, and its verdict waited for. */
export const PATIENCE_S = number("PATIENCE_S", 30);

/** For what is under way at the end of a scenario: the two waits of a transaction, and what the last request of each may take. */
export const GRACEFUL_STOP = `${String(2 * PATIENCE_S + 25)}s`;

export const LIMITS = {
  commitP95Ms: limitMs("COMMIT_P95_MS", 50),
  durableP95Ms: limitMs("DURABLE_P95_MS", 250),
  errorRateMax: number("ERROR_RATE", 0.001),
  lostMax: number("LOST_MAX", 0),
};
