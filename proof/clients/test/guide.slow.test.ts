// Goal: the programs of docs/guide/postgres-wire.md print what the page says. Method: they run in
// order on a separate system, unchanged except for the address; the output of each is compared with
// the text block after it.
import assert from "node:assert/strict";
import { readFile, rm, symlink, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { BLOCK } from "@highwater/lab-tools/markdown";
import { findPostgresProgram, whyNoPostgresProgram } from "@highwater/lab-tools/postgres";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { type Ended, runProgram } from "../src/program.ts";
import { Rig } from "../src/rig.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const PAGE = join(ROOT, "docs", "guide", "postgres-wire.md");
const PRINTED = "postgresql://app@127.0.0.1:4604/app";
const PRINTED_READS = "postgresql://app@127.0.0.1:4615/app";

let rig: Rig;
let folder: TemporaryFolder;

before(async () => {
  [rig, folder] = await Promise.all([Rig.start(), TemporaryFolder.make("highwater-guide-")]);
  await symlink(join(ROOT, "node_modules"), join(folder.path, "node_modules"));
});

after(async () => {
  await rm(join(folder.path, "node_modules"));
  await Promise.all([rig[Symbol.asyncDispose](), folder.remove()]);
});

async function run(kind: string, text: string): Promise<Ended> {
  const [home = "", away = ""] = rig.system.regions;
  const url = rig.system.pgUrl(home);
  const code = [
    [PRINTED, url],
    [PRINTED_READS, rig.system.pgReadUrl(away)],
  ].reduce(
    (all, [printed = "", real = ""]) =>
      all.replaceAll(printed.replace("postgresql:", ""), real.replace("postgresql:", "")),
    text,
  );
  const [{ gateway = "", tracker = "" } = {}] = await rig.system.endpoints(home);
  const program = code
    .replaceAll("http://127.0.0.1:4600", gateway)
    .replaceAll("http://127.0.0.1:4601", tracker);
  const psql = findPostgresProgram("psql") ?? "";
  if (kind === "sql") return runProgram([psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", url], { input: code });
  if (kind === "sh") {
    const PATH = [dirname(psql), process.env["PATH"] ?? ""].join(delimiter);
    return runProgram(["bash", "-e", "-c", code], { env: { PATH, PSQLRC: "/dev/null" } });
  }
  const file = join(folder.path, kind === "ts" ? "program.ts" : "program.py");
  await writeFile(file, program);
  const runner = kind === "ts" ? process.execPath : join(ROOT, ".venv", "bin", "python");
  return runProgram([runner, ...(kind === "ts" ? ["--disable-warning=ExperimentalWarning"] : []), file], {
    cwd: folder.path,
    env: { PYTHONPATH: join(ROOT, "sdk", "python", "src"), PYTHONDONTWRITEBYTECODE: "1" },
  });
}

test(
  "every program of the page prints what the page says",
  { skip: whyNoPostgresProgram("psql") },
  async () => {
    const blocks = [...(await readFile(PAGE, "utf8")).matchAll(BLOCK)].map(({ groups = {} }) => ({
      kind: groups["kind"] ?? "",
      text: groups["text"] ?? "",
    }));
    assert.deepEqual(
      blocks.map(({ kind }) => kind),
      [
        "sh",
        "text",
        "ts",
        "text",
        "python",
        "text",
        "sql",
        "sql",
        "ts",
        "text",
        "sql",
        "ts",
        "text",
        "python",
        "text",
      ],
    );
    for (const [at, { kind, text }] of blocks.entries()) {
      if (kind === "text") continue;
      const { code, output, errors } = await run(kind, text);
      assert.equal(code, 0, errors);
      const next = blocks[at + 1];
      if (next?.kind === "text") assert.equal(output, next.text, errors);
    }
  },
);
