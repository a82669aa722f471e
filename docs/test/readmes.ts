// The programs of the READMEs in TypeScript, each block by itself: what it needs, and what it prints. Those of the Python SDK are
// run by its own tests.
import { readFile } from "node:fs/promises";
import { blocksOf } from "@highwater/lab-tools/markdown";
import { type Page } from "./page.ts";

const ROOT = new URL("../../", import.meta.url);
const SETUP = `CREATE TABLE account (id int PRIMARY KEY, balance int8 NOT NULL); INSERT INTO account VALUES (1, 100);
  CREATE TABLE email (receiver text); CREATE TABLE counter (n int); INSERT INTO counter VALUES (0); CREATE TABLE note (text text)`;

interface Readme {
  readonly path: string;
  readonly setup: string;
  /** By block. */
  readonly prints: readonly string[];
}

const READMES: readonly Readme[] = [
  {
    path: "README.md",
    setup: "",
    prints: ["committed: { balance: 90 }\ndurable: another region has it on disk\n"],
  },
  {
    path: "sdk/ts/README.md",
    setup: SETUP,
    prints: ["", "to customer@example.org\n", "… [ { text: 'hello' } ]\n", "", "", ""],
  },
];

/** A page for each block. */
export async function readReadmes(): Promise<Page[]> {
  const all = await Promise.all(
    READMES.map(async ({ path, setup, prints }) => {
      const blocks = blocksOf("ts", await readFile(new URL(path, ROOT), "utf8"));
      if (blocks.length !== prints.length)
        throw new Error(`${path} has ${String(blocks.length)} programs, not ${String(prints.length)}`);
      return blocks.map((text, at): Page => ({
        ...{ name: `${path}, program ${String(at)}`, languages: ["ts"], setup },
        scenes: [{ parts: { ts: [{ kind: "code", text }], python: [] }, prints: prints[at] ?? "" }],
      }));
    }),
  );
  return all.flat();
}
