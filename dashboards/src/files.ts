// Every generated file, as a path below `dashboards/` and its content: the dashboards as Grafana
// imports and provisions them, and the rules as Prometheus loads them.
import { jsonLines } from "@highwater/lab-tools/json";
import { format } from "oxfmt";
import { stringify } from "yaml";
import { type Board, build } from "./board.ts";
import { durability } from "./boards/durability.ts";
import { gateway } from "./boards/gateway.ts";
import { replicationAndRegions } from "./boards/replication.ts";
import { slo } from "./boards/slo.ts";
import { webhooks } from "./boards/webhooks.ts";
import { groupsOf, RULE_FILES } from "./rules/files.ts";

export const BOARDS: readonly Board[] = [durability, gateway, replicationAndRegions, webhooks, slo];

export const ROOT = new URL("../", import.meta.url);

export interface File {
  readonly path: string;
  readonly content: string;
}

/** A line for each panel. */
const PANEL_DEPTH = 2;
const HEAD = "# Generated (make gen): change dashboards/src instead.\n";

export async function files(): Promise<File[]> {
  const boards = BOARDS.map((board) => ({
    path: `grafana/highwater-${board.name}.json`,
    content: jsonLines(build(board), PANEL_DEPTH),
  }));
  const rules = Object.entries(RULE_FILES).map(([name, groups]) =>
    formatted(`prometheus/${name}`, HEAD + stringify(groupsOf(groups), { lineWidth: 0 })),
  );
  return [...boards, ...(await Promise.all(rules))];
}

/** As `make fmt` would leave it. */
async function formatted(path: string, text: string): Promise<File> {
  const { code, errors } = await format(path, text, { printWidth: 110 });
  if (errors.length > 0) throw new Error(`${path}: ${JSON.stringify(errors)}`);
  return { path, content: code };
}
