// CockroachDB for tests: two clusters whose URLs are in the environment, else the stand-in.
import { CockroachServers } from "./servers.ts";

export { type CockroachPair } from "./pair.ts";
export { CockroachServers } from "./servers.ts";
export { CockroachStandIn } from "./stand-in.ts";

const { HIGHWATER_COCKROACH_URL: url = "", HIGHWATER_COCKROACH_STANDBY_URL: standbyUrl = "" } = process.env;
if ((url === "") !== (standbyUrl === ""))
  throw new Error("set HIGHWATER_COCKROACH_URL and HIGHWATER_COCKROACH_STANDBY_URL, or neither");

/** Null: there are none, and tests use the stand-in. */
export const openServers: (() => Promise<CockroachServers>) | null =
  url === "" ? null : () => CockroachServers.open([url, standbyUrl]);
