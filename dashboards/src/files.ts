// Every generated file, as a path below `dashboards/` and its content: the dashboards as Grafana imports and provisions them, and
// the rules as Prometheus loads them.
import * as prettier from "prettier";
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

const HEAD = "# Generated (make gen): change dashboards/src instead.\n";

export function files(): Promise<File[]> {
  return Promise.all([
    ...BOARDS.map((board) => formatted(`grafana/highwater-${board.name}.json`, JSON.stringify(build(board)))),
    ...Object.entries(RULE_FILES).map(([name, groups]) =>
      formatted(`prometheus/${name}`, HEAD + stringify(groupsOf(groups), { lineWidth: 0 })),
    ),
  ]);
}

/** As `make fmt` would leave them. */
async function formatted(path: string, text: string): Promise<File> {
  const parser = path.endsWith(".json") ? "json" : "yaml";
  return { path, content: await prettier.format(text, { parser, printWidth: 110 }) };
}
