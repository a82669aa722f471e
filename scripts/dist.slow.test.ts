// Goal: `make dist` builds packages that install, and work on every version that they promise. Method: run it, and install each
// package in an empty folder, with every Node and Python of the machine: the SDKs without a registry, the command with what npm's
// cache has. Start three regions from there, and commit from each installed SDK. Tests beside each SDK check what is in the packages.
// `make install-test` has more versions of Node, and twine.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { after, test, type TestContext } from "node:test";
import { eventually, TemporaryFolder } from "@highwater/lab-tools/process";
import { nodeOf, pythonOf } from "@highwater/lab-tools/runtimes";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { npmFields } from "./dist.ts";

const ROOT = join(import.meta.dirname, "..");
const DIST = join(ROOT, "dist");
const PYTHON = join(ROOT, ".venv/bin/python");
const OLDEST_NODE = 20;
const [SDK, CLI] = ["-sdk-0.1.0.tgz", "-cli-0.1.0.tgz"] as const;
/** Entries of the SDK that import a library of the user's. */
const NEEDS_PEERS = new Set(["./drizzle", "./kysely"]);
const READY_LIMIT_MS = 120_000;
/** Node prints the line that threw before the message: no line may be a whole program. */
const UNCAUGHT_CHARS_MAX = 4_000;
const REPOSITORY = "https://git.example.org/highwater";

interface Bill {
  readonly bomFormat: string;
  readonly metadata: { readonly component: { readonly purl: string } };
  readonly components: readonly { readonly name: string }[];
}

interface Manifest {
  readonly exports: Readonly<Record<string, unknown>>;
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

/** The one file in dist/ with this in its name. */
function found(part: string): string {
  const names = readdirSync(DIST).filter((name) => name.includes(part));
  assert.equal(names.length, 1, `${part}: ${names.join(", ")}`);
  return join(DIST, names[0] ?? "");
}

/** What each version of a language has installed: a program that commits, and its arguments before the addresses. */
const COMMITS: { readonly name: string; readonly cwd: string; readonly command: readonly string[] }[] = [];
const IN_TYPESCRIPT = `
import { Highwater, sql } from "@highwater/sdk";
const [gateway, tracker] = process.argv.slice(2);
const hw = new Highwater({ endpoints: [{ gateway, tracker }] });
const tx = await hw.transaction(sql\`INSERT INTO hello VALUES (\${process.version})\`);
console.log((await tx.durable()).verdict);
await hw.close();
`;
const IN_PYTHON = `
import sys
from highwater import Endpoint, Highwater, sql
with Highwater(endpoints=[Endpoint(*sys.argv[1:])]) as hw:
    tx = hw.transaction(sql("INSERT INTO hello VALUES ({version})", version=sys.version))
    print(tx.durable().verdict)
`;

/** With this Node, a package from dist/ is installed by npm in a folder that is empty. */
function npmInstall(node: string, cwd: string, ...args: readonly string[]): void {
  mkdirSync(cwd, { recursive: true });
  writeFileSync(join(cwd, "package.json"), '{ "private": true, "type": "module" }');
  const env = { ...process.env, PATH: [dirname(node), process.env["PATH"]].join(delimiter) };
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--silent", ...args], { cwd, env });
}

test("the packages are built, and each installs in an empty folder", () => {
  run(ROOT, "make", "-s", "dist", `REPOSITORY=${REPOSITORY}`);
  const bills = readdirSync(DIST).filter((name) => name.endsWith(".cdx.json"));
  assert.equal(readdirSync(DIST).length, 4 + bills.length);
  const named = bills.sort().map((name) => {
    const bill = JSON.parse(readFileSync(join(DIST, name), "utf8")) as Bill;
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
  npmInstall(process.execPath, project, "--offline", found(SDK));
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

  // Other packages, and the command's own Node, come from npm's cache where it has them.
  npmInstall(nodeOf(OLDEST_NODE) ?? process.execPath, EMPTY, "--prefer-offline", found(CLI));
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

for (const major of [OLDEST_NODE, 22, 24, 26])
  test(`the SDK and the command, installed with Node ${String(major)}`, (context) => {
    const node = nodeOf(major);
    if (node === null) {
      context.skip("not here: make install-test has it");
      return;
    }
    const cwd = join(folder.path, `node-${String(major)}`);
    npmInstall(node, cwd, "--offline", found(SDK));
    writeFileSync(join(cwd, "commits.js"), IN_TYPESCRIPT);
    COMMITS.push({ name: `Node ${String(major)}`, cwd, command: [node, "commits.js"] });
    const names = Object.keys(
      (JSON.parse(readFileSync(join(cwd, "node_modules/@highwater/sdk/package.json"), "utf8")) as Manifest)
        .exports,
    ).filter((name) => !NEEDS_PEERS.has(name));
    const script = names.map((name) => `await import("@highwater/sdk${name.slice(1)}");`).join("");
    run(cwd, node, "--input-type=module", "-e", script);

    const at = join(cwd, "the command");
    npmInstall(node, at, "--prefer-offline", found(CLI));
    // The command has its own Node, whatever is first on the path.
    const env = { ...USERS_ENV, PATH: [dirname(node), USERS_ENV["PATH"]].join(delimiter) };
    const asked = { cwd: at, env, encoding: "utf8" } as const;
    const command = join(at, "node_modules/.bin/highwater");
    assert.match(execFileSync(command, ["--version"], asked), /^highwater \d+\.\d+\.\d+\n$/);
    assert.match(execFileSync(command, ["keys", "generate"], asked), /^hwk_/);
    rmSync(at, { recursive: true });
  });

for (const minor of [11, 12, 13, 14])
  test(`the wheel and the source distribution, installed with Python 3.${String(minor)}`, (context) => {
    const python = pythonOf(minor);
    if (python === null) {
      context.skip("not here");
      return;
    }
    for (const end of [".whl", ".tar.gz"]) {
      const cwd = join(folder.path, `python-${String(minor)}${end}`);
      run(folder.path, python, "-m", "venv", "--without-pip", cwd);
      const own = join(cwd, "bin/python");
      const install = ["install", "--quiet", "--no-index", "--find-links", join(ROOT, ".venv/wheels")];
      run(cwd, PYTHON, "-m", "pip", "--python", own, ...install, found(end));
      writeFileSync(join(cwd, "commits.py"), IN_PYTHON);
      const command = [own, "-I", "-W", "error", "commits.py"];
      COMMITS.push({ name: `Python 3.${String(minor)}, ${end}`, cwd, command });
    }
  });

test("twine finds nothing in the Python packages", (context: TestContext) => {
  const twine = join(ROOT, ".tools/twine/bin/twine");
  if (existsSync(twine)) run(ROOT, twine, "check", "--strict", found(".whl"), found(".tar.gz"));
  else context.skip("not here: make install-test has it");
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

test("highwater dev runs three regions, each installed SDK commits there, and the console is there", async () => {
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
    assert.ok(COMMITS.length >= 3, "this Node, and the wheel and the source distribution with a Python");
    for (const { name, cwd, command } of COMMITS) {
      const [program = "", ...args] = command;
      const options = { cwd, env: USERS_ENV, encoding: "utf8", timeout: READY_LIMIT_MS } as const;
      const ended = spawnSync(program, [...args, address("gateway"), address("tracker")], options);
      assert.deepEqual([ended.stdout, ended.stderr], ["durable\n", ""], name);
    }
  } finally {
    dev.stdin.end("quit\n");
    await ended;
  }
  assert.equal(dev.exitCode, 0);
});
