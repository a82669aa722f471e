// Goal: an order of two databases is placed only if both have it durably, a loss in one of them is named and undone in the other,
// and the programs of the guide's page do what it says. Method: two real systems of three regions; the shop in both languages at
// the same time; the region of the invoices' primary is lost; both databases are the witnesses.
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { System } from "@highwater/lab-system";
import { blocksOf } from "@highwater/lab-tools/markdown";
import { eventually } from "@highwater/lab-tools/process";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
/** Where the programs are: in none of the regions. */
const HERE = "shop";
const LIMIT_MS = 90_000;
const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
const PYTHON = path("../../../.venv/bin/python");
const GUIDE = path("../../../docs/guide/several-stores.md");

let orders: System;
let billing: System;
before(async () => {
  [orders, billing] = await Promise.all([System.start(), System.start()]);
});
after(async () => {
  await Promise.all([orders.close(), billing.close()]);
});

/** A program that places the orders of its input. */
class Shop implements AsyncDisposable {
  output = "";
  readonly #child: ChildProcess;

  constructor(command: readonly string[], env: Readonly<Record<string, string>>) {
    const [file = "", ...args] = command;
    this.#child = spawn(file, args, { env: { ...process.env, ...env } });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on("data", (chunk: Buffer) => (this.output += chunk.toString()));
  }

  async place(order: number, ...ends: readonly string[]): Promise<void> {
    this.#child.stdin?.write(`${String(order)}\n`);
    for (const end of ends) await this.says(order, end);
  }

  async says(order: number, end: string): Promise<void> {
    const line = `${String(order)} ${end}\n`;
    await eventually(`${line} in ${this.output}`, () => this.output.includes(line), LIMIT_MS);
  }

  async end(): Promise<void> {
    const closed = once(this.#child, "close");
    this.#child.stdin?.end();
    await closed;
    assert.equal(this.#child.exitCode, 0, this.output);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null) this.#child.kill("SIGKILL");
  }
}

async function environment(): Promise<Record<string, string>> {
  const env: Record<string, string> = { PYTHONPATH: path("../../../sdk/python/src") };
  for (const [name, system] of [
    ["ORDERS", orders],
    ["BILLING", billing],
  ] as const) {
    const endpoints = await system.endpoints(HERE);
    env[`${name}_GATEWAYS`] = endpoints.map(({ gateway }) => gateway).join(",");
    env[`${name}_TRACKERS`] = endpoints.map(({ tracker }) => tracker).join(",");
  }
  return env;
}

for (const language of ["ts", "python"] as const)
  test(`the guide's page runs: ${language}`, async (context) => {
    const markdown = await readFile(GUIDE, "utf8");
    let code = blocksOf(language, markdown).join("\n");
    for (const [name, system] of [
      ["orders", orders],
      ["billing", billing],
    ] as const) {
      const [{ gateway, tracker } = { gateway: "", tracker: "" }] = await system.endpoints(EAST);
      const given = JSON.stringify([{ gateway, tracker }]);
      code = code
        .replaceAll(`url: "https://${name}.example"`, `endpoints: ${given}`)
        .replaceAll(
          `"https://${name}.example"`,
          `endpoints=[__import__("highwater").Endpoint(**each) for each in ${given}]`,
        );
      code = code.replaceAll(/\b(purchase|invoice)\b(?= \(| VALUES|"|`)/g, `$1_${language}`);
    }
    // Inside the example, so that the package's name leads to it.
    const folder = await mkdtemp(path("../.tmp-"));
    context.after(() => rm(folder, { recursive: true }));
    const file = join(folder, language === "ts" ? "page.ts" : "page.py");
    await writeFile(file, code);
    await using program = new Shop(
      [language === "ts" ? process.execPath : PYTHON, file],
      await environment(),
    );
    await program.end();
    assert.equal(program.output, blocksOf("text", markdown).join(""));
  });

test("a loss in one database is undone in the other", async () => {
  const env = await environment();
  await using first = new Shop([process.execPath, path("../shop.ts")], env);
  // It makes the tables, and then the other one finds them.
  await first.place(1, "committed", "durable");
  await using second = new Shop([PYTHON, path("../shop.py")], env);
  await second.place(101, "committed", "durable");

  // The invoices reach no other region any more, and then their region is lost.
  const { cluster } = billing;
  await Promise.all([WEST, EUROPE].map((region) => cluster.link(EAST, region).cut()));
  await Promise.all([first.place(2, "committed"), second.place(102, "committed")]);
  await billing.killRegion(EAST);
  const primary = await cluster.mostAdvancedReplica();
  await cluster.promote(primary);
  await Promise.all([first, second].map((shop, at) => shop.says(at * 100 + 2, "lost in billing, cancelled")));
  // Both stores go on.
  await first.place(3, "committed", "durable");
  await second.place(103, "committed", "durable");
  await Promise.all([first.end(), second.end()]);

  const states = (rows: readonly Readonly<Record<string, unknown>>[]): string[] =>
    rows.map(({ id, state }) => `${String(id)} ${String(state)}`);
  assert.deepEqual(states(await orders.cluster.query(EAST, "SELECT id, state FROM purchase ORDER BY id")), [
    "1 placed",
    "2 cancelled",
    "3 placed",
    "101 placed",
    "102 cancelled",
    "103 placed",
  ]);
  assert.deepEqual(states(await cluster.query(primary, "SELECT id, state FROM invoice ORDER BY id")), [
    "1 due",
    "3 due",
    "101 due",
    "103 due",
  ]);
});
