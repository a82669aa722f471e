// The names of clusters, by which routes, statistics and the access log speak of where a request
// goes.
import { type PostgresPort } from "./source.ts";

/** Any gateway, and any tracker: nearest region first. */
export const GATEWAYS = "gateways";
export const TRACKERS = "trackers";
/** The same, and whether they live at all: no request goes there. */
export const LIVING_GATEWAYS = "living_gateways";
export const LIVING_TRACKERS = "living_trackers";
/** Any gateway's port for PostgreSQL clients, by its field in the source: nearest region first. */
export const POSTGRES: Readonly<Record<PostgresPort, string>> = {
  postgresPort: "postgres",
  postgresReadPort: "postgres_read",
};
/** Envoy's own interface: only its statistics are shown, and only to operators. */
export const ADMIN = "admin";
export const TRACES = "traces";

/** The one gateway that has an open transaction, and no other. */
export const pinnedTo = (gateway: string): string => `pinned_${gateway}`;
/** That gateway, and where it is gone any other. */
export const endingOf = (gateway: string): string => `ending_${gateway}`;
