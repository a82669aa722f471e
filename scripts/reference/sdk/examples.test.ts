// Goal: the examples of the TypeScript reference run as they are printed, and their types are right. Method: each becomes a module
// beside the package, with the names of its entry and a client, and runs on the real system. Those of Python have a test beside theirs.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { format } from "node:util";
import { APP_ROLE, System } from "@highwater/lab-system";
import { Highwater, sql } from "@highwater/sdk";
import { type ApiItem, type Module } from "./model.ts";
import { typescriptModules } from "./pages.ts";

const SDK = fileURLToPath(new URL("../../../sdk/ts/", import.meta.url));
const MAIN = "@highwater/sdk";
const URL_SHOWN = '{ url: "https://highwater.example"';
/** What readers have imported themselves. */
const IMPORTS: Readonly<Record<string, string>> = {
  "@highwater/sdk/opentelemetry": 'import * as api from "@opentelemetry/api";',
  "@highwater/sdk/kysely": 'import { Kysely } from "kysely";',
  "@highwater/sdk/enlist": 'import pg from "pg";\nimport postgres from "postgres";',
  "@highwater/sdk/tokens": 'import pg from "pg";',
  "@highwater/sdk/gate": 'import express from "express";\nconst app = express();',
  "@highwater/sdk/drizzle": 'import { pgTable, text } from "drizzle-orm/pg-core";',
};
/** What some of them print; the others need only end well. */
const PRINTS: Readonly<Record<string, RegExp>> = {
  Highwater: /^committed: \[ \{ balance: \d+n? \} \]\ndurable\n$/,
  "Highwater.verdicts": /^region durable\n$/,
  "Highwater.status": /^durable\n$/,
  "DurabilityPromise.durable": /^$/,
  "DurabilityPromise.afterDurable": /^now the e-mail can go out\n$/,
  HighwaterError: /^constraint_violation not_applied never account_pkey\n$/,
  Session: /^true \w+\n(?:durable\n|pending\n)+$/,
  Sql: /^SELECT id FROM account WHERE balance >= \$1 AND id = \$2 \[ 10, 1 \]\n$/,
  "@highwater/sdk/edge": /^durable\n$/,
  sql: /^\[ \{ id: 1 \}, \{ id: 2 \}, \{ id: 3 \} \]\n10n\n$/,
};

interface Example {
  readonly name: string;
  readonly module: Module;
  readonly code: string;
}

function examplesOf(module: Module): Example[] {
  const all: readonly Pick<ApiItem, "name" | "examples">[] = module.entries.flatMap((entry) => [
    entry,
    ...("methods" in entry ? (entry.methods ?? []) : []),
  ]);
  return [module, ...all].flatMap(({ name, examples }) => examples.map((code) => ({ name, module, code })));
}

const EXAMPLES = typescriptModules().flatMap(examplesOf);
let system: System;
let directory: string | undefined;
const files = new Map<Example, string>();

before(async () => {
  system = await System.start();
  const endpoints = (await system.endpoints("us-east")).map(({ gateway, tracker }) => ({ gateway, tracker }));
  const database = await system.cluster.connectionString("us-east", { user: APP_ROLE });
  const options = `{ endpoints: ${JSON.stringify(endpoints.slice(0, 1))}`;
  await using hw = new Highwater({ endpoints });
  await hw.transaction(
    [
      sql`CREATE TABLE account (id int PRIMARY KEY, balance int8 NOT NULL)`,
      sql`INSERT INTO account SELECT i, 1000 FROM generate_series(1, 9) AS i`,
      sql`CREATE TABLE note (text text)`,
    ],
    { ack: "durable", level: "global" },
  );
  // Inside the package, so that its name leads to it, as it does for users.
  directory = await mkdtemp(join(SDK, ".tmp-"));
  for (const [index, example] of EXAMPLES.entries()) {
    const file = join(directory, `example-${String(index)}.ts`);
    const program = programOf(example)
      .replaceAll(URL_SHOWN, options)
      // The second store of an example is the same database here.
      .replaceAll(URL_SHOWN.replace("highwater", "billing"), options);
    const reached = program.replaceAll("postgresql://shop@127.0.0.1:5432/app", database);
    await writeFile(file, reached.replaceAll("postgresql://app@127.0.0.1:4604/app", system.pgUrl("us-east")));
    files.set(example, file);
  }
});

after(async () => {
  // Only what this test has made: without it there is no path that could mean anything else.
  if (directory !== undefined) await rm(directory, { recursive: true, force: true });
  await system.close();
});

/** The example between what stands around it in a reader's program; that of an entry of the package is a whole program. */
function programOf({ name, module, code }: Example): string {
  if (name === module.name) return code;
  const main = typescriptModules().find(({ name }) => name === MAIN);
  const imported = [main, ...(module.name === MAIN ? [] : [module])].flatMap((each) => {
    const names = (each?.entries ?? [])
      .map(({ name }) => name)
      .filter((name) => name === "Highwater" || new RegExp(`\\b${name}\\b`).test(code));
    return names.length > 0 ? [`import { ${names.join(", ")} } from "${each?.name ?? ""}";`] : [];
  });
  const isModule = /^export /m.test(code);
  return [
    ...imported,
    IMPORTS[module.name] ?? "",
    `const hw = new Highwater(${URL_SHOWN} });`,
    isModule ? code : `{\n${code}\n}`,
    "await hw.close();",
    "export {};",
  ].join("\n");
}

test("every class and every entry of the package has an example", () => {
  const shown = new Set(EXAMPLES.map(({ name }) => name.split(".")[0]));
  const main = typescriptModules().find(({ name }) => name === MAIN);
  const classes = (main?.entries ?? []).filter(({ kind }) => kind === "class").map(({ name }) => name);
  // What a transaction is for is in the examples of what it is made by.
  assert.deepEqual(
    classes.filter((name) => !shown.has(name)),
    ["Transaction"],
  );
  for (const module of typescriptModules()) assert.ok(examplesOf(module).length > 0, module.name);
  assert.deepEqual(
    Object.keys(PRINTS).filter((name) => !EXAMPLES.some((each) => each.name === name)),
    [],
  );
});

test("their types are right", async () => {
  const config = {
    extends: "../../../tsconfig.json",
    compilerOptions: { incremental: false, tsBuildInfoFile: null, noUnusedLocals: false },
    files: [...files.values()],
    // Nothing but those.
    include: [],
  };
  await writeFile(join(directory ?? "", "tsconfig.json"), JSON.stringify(config));
  const compiler = join(SDK, "../../node_modules/.bin/tsc");
  const { status, stdout } = spawnSync(process.execPath, [compiler, "-p", directory ?? ""], {
    encoding: "utf8",
  });
  assert.equal(status, 0, stdout);
});

for (const example of EXAMPLES)
  test(`${example.module.name}: the example of ${example.name} runs`, async (context) => {
    const printed: string[] = [];
    for (const method of ["log", "error", "debug", "info"] as const)
      context.mock.method(console, method, (...values: unknown[]) => printed.push(`${format(...values)}\n`));
    await import(pathToFileURL(files.get(example) ?? "").href);
    assert.match(printed.join(""), PRINTS[example.name] ?? /(?:)/);
  });
