// Goal: `make dist` builds packages that install. Method: run it, and install each in an empty folder: the SDKs without a registry,
// the command with what npm's cache has, and start three regions from there. Tests beside each SDK check the contents of the packages.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { eventually, TemporaryFolder } from "@highwater/lab-tools/process";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { npmFields } from "./dist.ts";

const ROOT = join(import.meta.dirname, "..");
const PYTHON = join(ROOT, ".venv/bin/python");
const READY_LIMIT_MS = 120_000;
/** Node prints the line that threw before the message: no line may be a whole program. */
const UNCAUGHT_CHARS_MAX = 4_000;
const REPOSITORY = "https://git.example.org/highwater";

interface Bill {
  readonly bomFormat: string;
  readonly metadata: { readonly component: { readonly purl: string } };
  readonly components: readonly { readonly name: string }[];
}

/** What a user has: nothing of a run of tests, which shares its bundles of the services. */
const USERS_ENV = Object.fromEntries(["PATH", "HOME", "TMPDIR"].map((name) => [name, process.env[name]]));
const folder = await TemporaryFolder.make("highwater-dist-");
after(() => folder.remove());
/** Where the first test installs the command. Paths of users have spaces. */
const EMPTY = join(folder.path, "the command");
const HIGHWATER = join(EMPTY, "node_modules/.bin/highwater");

function run(cwd: string, program: string, ...args: readonly string[]): string {
  return execFileSync(program, args, { cwd, encoding: "utf8" });
}

test("the packages are built, and each installs in an empty folder", () => {
  run(ROOT, "make", "-s", "dist", `REPOSITORY=${REPOSITORY}`);
  const dist = join(ROOT, "dist");
  const found = (part: string): string => {
    const names = readdirSync(dist).filter((name) => name.includes(part));
    assert.equal(names.length, 1, `${part}: ${names.join(", ")}`);
    return join(dist, names[0] ?? "");
  };
  const bills = readdirSync(dist).filter((name) => name.endsWith(".cdx.json"));
  assert.equal(readdirSync(dist).length, 4 + bills.length);
  const named = bills.sort().map((name) => {
    const bill = JSON.parse(readFileSync(join(dist, name), "utf8")) as Bill;
    assert.equal(bill.bomFormat, "CycloneDX");
    return [bill.metadata.component.purl, bill.components.map((each) => each.name)] as const;
  });
  const [command, sdk, python] = named;
  assert.deepEqual(sdk, ["pkg:npm/%40highwater/sdk@0.1.0", []]);
  assert.equal(command?.[0], "pkg:npm/%40highwater/cli@0.1.0");
  for (const name of ["pg", "pg-protocol", "fastify", "node"]) assert.ok(command[1].includes(name), name);
  assert.equal(python?.[0], "pkg:pypi/highwater-sdk@0.1.0");
  for (const name of ["httpx", "httpcore", "h11"]) assert.ok(python[1].includes(name), name);

  const project = join(folder.path, "npm");
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), '{ "private": true, "type": "module" }');
  run(project, "npm", "install", "--offline", "--no-audit", "--no-fund", "--silent", found("-sdk-0.1.0.tgz"));
  const script = 'import { Highwater } from "@highwater/sdk"; console.log(Highwater.name);';
  assert.equal(run(project, process.execPath, "--input-type=module", "-e", script), "Highwater\n");
  const uncaught = `import { Highwater } from "@highwater/sdk"; new Highwater({ url: "postgresql://here" });`;
  const args = ["--input-type=module", "-e", uncaught];
  const { stderr } = spawnSync(process.execPath, args, { cwd: project, encoding: "utf8" });
  assert.match(stderr, /^InvalidRequestError: postgresql:\/\/here is not an HTTP URL$/m);
  assert.ok(stderr.length < UNCAUGHT_CHARS_MAX, stderr);

  for (const [name, directory] of [["sdk", "sdk/ts"] as const, ["cli", "cli"] as const]) {
    const built = join(ROOT, ".tools/dist", name);
    const manifest = JSON.parse(readFileSync(join(built, "package.json"), "utf8")) as object;
    const { repository } = npmFields(REPOSITORY, directory) as { repository: object };
    assert.deepEqual("repository" in manifest && manifest.repository, repository);
    const readme = readFileSync(join(built, "README.md"), "utf8");
    assert.ok(readme.includes(`](${REPOSITORY}/blob/v0.1.0/docs/guide/`));
    assert.doesNotMatch(readme, /\]\(\.\.?\//);
  }

  mkdirSync(EMPTY);
  writeFileSync(join(EMPTY, "package.json"), '{ "private": true }');
  // Other packages, and the command's own Node, come from npm's cache where it has them.
  run(
    EMPTY,
    "npm",
    "install",
    "--prefer-offline",
    "--no-audit",
    "--no-fund",
    "--silent",
    found("-cli-0.1.0.tgz"),
  );
  assert.match(run(EMPTY, HIGHWATER, "--version"), /^highwater \d+\.\d+\.\d+\n$/);
  assert.match(run(EMPTY, HIGHWATER, "init", "--help"), /^Usage: highwater init /);
  // Another program of ours, and files beside its modules.
  assert.match(run(EMPTY, HIGHWATER, "keys", "generate"), /^hwk_/);
  assert.match(run(EMPTY, HIGHWATER, "roles"), /CREATE TABLE highwater_audit\.entry/);

  for (const end of [".whl", ".tar.gz"]) {
    const target = join(folder.path, end.slice(1));
    const install = [
      "install",
      "--quiet",
      "--no-index",
      "--no-deps",
      "--no-build-isolation",
      "--target",
      target,
    ];
    run(folder.path, PYTHON, "-m", "pip", "--disable-pip-version-check", ...install, found(end));
    const check = `import sys; sys.path.insert(0, ${JSON.stringify(target)}); import highwater; print(highwater.__file__)`;
    assert.ok(run(folder.path, PYTHON, "-P", "-c", check).startsWith(target));
    const metadata = readFileSync(join(target, "highwater_sdk-0.1.0.dist-info/METADATA"), "utf8");
    assert.ok(metadata.includes(`Project-URL: Repository, ${REPOSITORY}\n`));
    assert.doesNotMatch(metadata, /\]\(\.\.?\//);
  }
});

test("every command of the package starts: it has its help, and refuses an option that it does not have", () => {
  const all = run(EMPTY, HIGHWATER, "--help");
  const commands = Array.from(all.matchAll(/^ {2}([a-z]+(?: [a-z]+)?) {2,}/gm), ([, name = ""]) => name);
  assert.ok(commands.length > 30, all);
  for (const name of commands) {
    const words = name.split(" ");
    assert.match(run(EMPTY, HIGHWATER, ...words, "--help"), new RegExp(words.at(-1) ?? ""));
    const { status, stderr } = spawnSync(HIGHWATER, [...words, "--nonsense"], {
      cwd: EMPTY,
      encoding: "utf8",
    });
    assert.equal(status, 2, `${name}: ${stderr}`);
    assert.doesNotMatch(stderr, /node:internal|^ +at /m, name);
  }
});

test("publint finds nothing in the command's package", async () => {
  const pkgDir = join(EMPTY, "node_modules/@highwater/cli");
  const { messages, pkg } = await publint({ pkgDir, pack: false, strict: true });
  assert.deepEqual(
    messages.map((message) => formatMessage(message, pkg)),
    [],
  );
});

test("highwater dev runs three regions, a transaction becomes durable, and the console is there", async () => {
  const dev = spawn(HIGHWATER, ["dev"], { cwd: EMPTY, env: USERS_ENV, stdio: ["pipe", "pipe", "inherit"] });
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
