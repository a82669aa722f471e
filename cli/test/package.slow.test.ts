// Goal: what `make dist` packs for npm works for somebody who has nothing else. Method: build it, pack
// it, install it in an empty folder, and start the three regions from there.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { eventually, TemporaryFolder } from "@highwater/lab-tools/process";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import MANIFEST from "../package.json" with { type: "json" };
import { build } from "../scripts/build.ts";

const INSTALL_LIMIT_MS = 300_000;
const READY_LIMIT_MS = 120_000;

let folder: TemporaryFolder | undefined;
let project = "";
/** What a user has: nothing of a run of tests, which shares its bundles of the services. */
const env = Object.fromEntries(["PATH", "HOME", "TMPDIR"].map((name) => [name, process.env[name]]));

before(async () => {
  folder = await TemporaryFolder.make("highwater-cli-");
  project = join(folder.path, "project");
  const built = join(folder.path, "built");
  await build(built);
  const npm = (cwd: string, ...args: string[]): void => {
    execFileSync("npm", [...args, "--silent", "--no-audit", "--no-fund"], { cwd, timeout: INSTALL_LIMIT_MS });
  };
  npm(built, "pack", "--pack-destination", folder.path);
  const archive = (await readdir(folder.path)).find((name) => name.endsWith(".tgz")) ?? "";
  await mkdir(project);
  await writeFile(join(project, "package.json"), '{ "private": true }');
  npm(project, "install", "--prefer-offline", join(folder.path, archive));
});

after(async () => {
  await folder?.remove();
});

test("publint finds nothing", async () => {
  const pkgDir = join(project, "node_modules/@highwater/cli");
  const { messages, pkg } = await publint({ pkgDir, pack: false, strict: true });
  assert.deepEqual(
    messages.map((message) => formatMessage(message, pkg)),
    [],
  );
});

test("highwater dev runs three regions, a transaction becomes durable, and the console is there", async () => {
  const program = join(project, "node_modules/.bin/highwater");
  const run = (...args: string[]): string =>
    execFileSync(program, args, { cwd: project, env, encoding: "utf8" }).trim();
  assert.equal(run("--version"), `highwater ${MANIFEST.version}`);
  const dev = spawn(program, ["dev"], { cwd: project, env, stdio: ["pipe", "pipe", "inherit"] });
  let said = "";
  dev.stdout.setEncoding("utf8").on("data", (text: string) => (said += text));
  const ended = once(dev, "exit");
  try {
    await eventually(
      () => `it is ready: ${said}`,
      () => said.includes("Ctrl-C"),
      READY_LIMIT_MS,
    );
    const address = (name: string): string =>
      new RegExp(`^ +${name} +(http://\\S+)$`, "m").exec(said)?.[1] ?? "";
    const page = await fetch(address("console"));
    assert.equal(page.status, 200, await page.text());
    const script = await fetch(`${address("console")}/app.js`);
    assert.equal(script.status, 200, await script.text());
    const body = /-d '(?<json>\{.*\})'$/m.exec(said)?.groups?.["json"] ?? "";
    const headers = { "content-type": "application/json" };
    const url = `${address("gateway")}/v1/transactions`;
    const answer = await fetch(url, { method: "POST", headers, body });
    assert.equal(((await answer.json()) as { state?: string }).state, "durable");
  } finally {
    dev.stdin.end("quit\n");
    await ended;
  }
  assert.equal(dev.exitCode, 0);
});
