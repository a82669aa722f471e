// What each module and example of infra/terraform declares, read by HCL's own parser (compiled to
// WebAssembly). Not how it is shown: that is terraform.ts's business, nor what it is held against:
// that is infra/terraform/test's.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "@cdktn/hcl2json";

export const INFRA = fileURLToPath(new URL("../../infra/terraform/", import.meta.url));

export interface Variable {
  readonly name: string;
  /** As it is written, on one line; null: none. */
  readonly type: string | null;
  readonly description: string;
  /** Absent: the caller has to give one. */
  readonly fallback?: unknown;
  readonly isSensitive: boolean;
  readonly isEphemeral: boolean;
  /** What each rule says when it is broken. */
  readonly rules: readonly string[];
}

interface Output {
  readonly name: string;
  readonly description: string;
}

export interface Configuration {
  readonly kind: "module" | "example";
  readonly name: string;
  /** The comment with which main.tf opens. */
  readonly about: string;
  /** Of Terraform, and of each provider by its source. */
  readonly versions: Readonly<Record<string, string>>;
  readonly variables: readonly Variable[];
  readonly outputs: readonly Output[];
  /** The settings of each `provider` block. */
  readonly providers: readonly Block[];
  /** The text of each of its files, by name. */
  readonly files: ReadonlyMap<string, string>;
}

type Block = Readonly<Record<string, unknown>>;
type Blocks = Readonly<Record<string, readonly Block[]>>;

/** Every module and example that there is, in the order of their names. */
export async function readConfigurations(): Promise<Configuration[]> {
  const folders = (["module", "example"] as const).flatMap((kind) =>
    readdirSync(join(INFRA, `${kind}s`), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => ({ kind, name }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
  );
  return Promise.all(folders.map(({ kind, name }) => readConfiguration(kind, name)));
}

async function readConfiguration(kind: "module" | "example", name: string): Promise<Configuration> {
  const folder = join(INFRA, `${kind}s`, name);
  const files = new Map(
    readdirSync(folder)
      .filter((file) => file.endsWith(".tf"))
      .sort()
      .map((file) => [file, readFileSync(join(folder, file), "utf8")]),
  );
  const parsed = await Promise.all(
    [...files].map(async ([file, text]) => (await parse(`${kind}s/${name}/${file}`, text)) as Block),
  );
  const all = (type: string): (readonly [string, Block])[] =>
    parsed.flatMap((file) =>
      Object.entries((file[type] ?? {}) as Blocks).flatMap(([label, blocks]) =>
        blocks.map((block) => [label, block] as const),
      ),
    );
  return {
    kind,
    name,
    about: aboutOf(files.get("main.tf") ?? ""),
    versions: versionsOf(parsed.flatMap((file) => (file["terraform"] ?? []) as readonly Block[])),
    variables: all("variable").map(([label, block]) => variableOf(label, block)),
    outputs: all("output").map(([label, block]) => ({ name: label, description: textOf(block) })),
    providers: all("provider").map(([, block]) => block),
    files,
  };
}

function variableOf(name: string, block: Block): Variable {
  const { type } = block;
  return {
    name,
    type: typeof type === "string" ? onOneLine(type.replace(/^\$\{([^]*)\}$/, "$1")) : null,
    description: textOf(block),
    ...("default" in block && { fallback: block["default"] }),
    isSensitive: block["sensitive"] === true,
    isEphemeral: block["ephemeral"] === true,
    rules: ((block["validation"] ?? []) as readonly Block[]).map((rule) => String(rule["error_message"])),
  };
}

function textOf(block: Block): string {
  const { description } = block;
  return typeof description === "string" ? description.trim().replaceAll(/\s+/g, " ") : "";
}

/** Attributes of an object stand on lines of their own, or behind commas. */
function onOneLine(type: string): string {
  return type
    .split("\n")
    .map((line) => line.replace(/\s*#.*$/, "").trim())
    .filter((line) => line !== "")
    .reduce((before, line) => {
      const isInside = /[{([,]$/.test(before) || /^[\])}]/.test(line);
      return `${before}${isInside ? " " : ", "}${line}`;
    })
    .replaceAll(/\s+/g, " ");
}

function aboutOf(main: string): string {
  const lines = main.split("\n");
  const end = lines.findIndex((line) => !line.startsWith("#"));
  return lines
    .slice(0, end)
    .map((line) => line.replace(/^#\s*/, ""))
    .join(" ");
}

function versionsOf(blocks: readonly Block[]): Record<string, string> {
  const versions: Record<string, string> = {};
  for (const block of blocks) {
    if (typeof block["required_version"] === "string") versions["terraform"] = block["required_version"];
    for (const providers of (block["required_providers"] ?? []) as readonly Readonly<
      Record<string, { source: string; version: string }>
    >[])
      for (const { source, version } of Object.values(providers)) versions[source] = version;
  }
  return versions;
}
