// The pages of docs/reference that are made from the code, as a whole or in their table.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { commandSections } from "@highwater/cli/reference";
import { jsonLines } from "@highwater/lab-tools/json";
import { classOf, describeError, type ErrorCode, ERRORS } from "@highwater/protocol";
import { configRows as trackerConfigRows } from "@highwater/durability-tracker/config-reference";
import { configRows } from "@highwater/txn-gateway/config-reference";
import { makeDocument as makeTrackerDocument } from "@highwater/durability-tracker/openapi";
import { makeDocument } from "@highwater/txn-gateway/openapi";
import { ROOT } from "../tree.ts";
import { readRecord } from "../verify/run.ts";
import { versionsPage } from "../verify/versions-page.ts";
import { INFRA } from "./hcl.ts";
import { logSections } from "./logs.ts";
import { metricSections } from "./metrics.ts";
import { SDK_PAGES } from "./sdk/pages.ts";
import { renderSync } from "./sdk/sync-client.ts";
import { withRows } from "./rows.ts";
import { renderModule, renderTerraform } from "./terraform.ts";
import { renderTopology } from "./topology.ts";
import { renderPython, renderTypescript } from "./wire.ts";

export interface Page {
  /** Its path from docs/reference. */
  readonly name: string;
  /** From the page as it is to the page as it should be. */
  readonly render: (current: string) => Promise<string> | string;
}

export const pathOf = (name: string): string =>
  fileURLToPath(new URL(`../../docs/reference/${name}`, import.meta.url));

const PYTHON_SDK = "../../sdk/python/src/highwater/";
/** A line for each path, and for each schema. */
const OPENAPI_DEPTH = 3;

export const GENERATED: readonly Page[] = [
  // First: the pages of the SDKs are read from them.
  { name: "../../sdk/ts/src/wire-types.ts", render: renderTypescript },
  { name: "../../sdk/python/src/highwater/_core/wire_types.py", render: renderPython },
  { name: `${PYTHON_SDK}client.py`, render: () => renderSync("aio.py", "client.py") },
  { name: `${PYTHON_SDK}enlist/_client.py`, render: () => renderSync("enlist/_aio.py", "enlist/_client.py") },
  { name: `${PYTHON_SDK}stores/_client.py`, render: () => renderSync("stores/_aio.py", "stores/_client.py") },
  { name: "openapi.json", render: () => jsonLines(makeDocument(), OPENAPI_DEPTH) },
  { name: "tracker-openapi.json", render: () => jsonLines(makeTrackerDocument(), OPENAPI_DEPTH) },
  { name: "errors.md", render: renderErrors },
  { name: "gateway-config.md", render: (current) => withRows(current, configRows()) },
  { name: "tracker-config.md", render: (current) => withRows(current, trackerConfigRows()) },
  { name: "cli.md", render: (current) => withSections(current, commandSections()) },
  { name: "metrics.md", render: (current) => withSections(current, metricSections()) },
  { name: "logs.md", render: (current) => withSections(current, logSections()) },
  { name: "postgresql-versions.md", render: (current) => versionsPage(current, readRecord(ROOT)) },
  { name: "topology.md", render: renderTopology },
  { name: "terraform.md", render: renderTerraform },
  ...readdirSync(join(INFRA, "modules")).map((module) => ({
    name: `../../infra/terraform/modules/${module}/README.md`,
    render: () => renderModule(module),
  })),
  ...SDK_PAGES,
];

/** Everything from the first section on; what stands before it is written by hand. */
function withSections(page: string, sections: readonly string[]): string {
  const [head = ""] = page.split("\n## ");
  return [head.trimEnd(), ...sections, ""].join("\n");
}

/** The rows of its table, and everything from the first section on. */
function renderErrors(page: string): string {
  const all = (Object.keys(ERRORS) as ErrorCode[]).map(describeError);
  const rows = all.map(({ code, status, outcome, retry, title }) =>
    ["", `[\`${code}\`](#${code})`, status, outcome, retry, title, ""].join(" | ").trim(),
  );
  const sections = all.map(({ code, cause, fix, example }) => {
    const own = Object.entries(example).filter(([name, value]) => classOf(code)[name as "code"] !== value);
    const fields = own.map(([name, value]) => `"${name}": ${JSON.stringify(value)}`);
    const body = fields.length === 1 ? `{ ${fields.join("")} }` : `{\n  ${fields.join(",\n  ")}\n}`;
    const block = fields.length === 0 ? "" : `\n\`\`\`json\n${body}\n\`\`\`\n`;
    return `## \`${code}\`\n\n**Cause.** ${cause}\n\n**Fix.** ${fix}\n${block}`;
  });
  const [head = ""] = withRows(page, rows).split("\n## ");
  return [head.trimEnd(), "", ...sections].join("\n");
}
