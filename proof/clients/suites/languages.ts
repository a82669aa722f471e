// Clients that are programs in other languages: psycopg, asyncpg, pgx, pgjdbc.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { transcriptOf } from "../src/program.ts";
import { type Suite } from "../src/rig.ts";
import { buildGo, buildJava } from "../src/toolchains.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PYTHON = fileURLToPath(new URL("../../../.venv/bin/python", import.meta.url));

const python = (name: string, file: string): Suite => ({
  name,
  run: ({ url }) =>
    transcriptOf([PYTHON, join(ROOT, "python", file)], url, { env: { PYTHONDONTWRITEBYTECODE: "1" } }),
});

export const psycopg = python("psycopg", "psycopg_suite.py");
export const asyncpg = python("asyncpg", "asyncpg_suite.py");

export const pgx: Suite = {
  name: "pgx",
  run: async ({ url }) => {
    await using folder = await TemporaryFolder.make("highwater-pgx-");
    const program = await buildGo(join(ROOT, "go"), folder.path);
    return await transcriptOf([program], `${url}?sslmode=disable`);
  },
};

export const pgjdbc: Suite = {
  name: "pgjdbc",
  run: async ({ url }) => {
    await using folder = await TemporaryFolder.make("highwater-pgjdbc-");
    const classes = await buildJava(join(ROOT, "java", "Client.java"), folder.path);
    return await transcriptOf(["java", "-cp", classes, "Client"], url);
  },
};
