// Goal: the guide to your own PostgreSQL works as it stands, and its removal leaves nothing. Method:
// bash runs the blocks of the page, in their order, on stock servers of the distribution, with the
// command as npm installs it from its package; only the block of settings is replaced, by free ports
// and folders.
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { test } from "node:test";
import pg from "pg";
import { build } from "@highwater/cli/build";
import { startCluster } from "@highwater/lab-cluster";
import { TemporaryFolder } from "@highwater/lab-tools/process";

const PAGE = readFileSync(new URL("../guide/your-own-postgres.md", import.meta.url), "utf8");
const BLOCK = /^```sh(?: (?<kind>settings|servers))?\n(?<text>.*?)^```$/gms;
const LIMIT_MS = 600_000;
/** The newest of the distribution that a user without rights can run. */
const PROGRAMS = globSync("/usr/lib/postgresql/*/bin")
  .filter((folder) => existsSync(join(folder, "initdb")))
  .at(-1);
const UNPRIVILEGED = 65_534;
const AS_UNPRIVILEGED = "setpriv --reuid 65534 --regid 65534 --clear-groups";

interface Identity {
  readonly uid?: number;
  readonly gid?: number;
}

function blocks(kind: string | undefined): string {
  return Array.from(PAGE.matchAll(BLOCK), ({ groups }) => groups)
    .filter((groups) => groups?.["kind"] === kind)
    .map((groups) => groups?.["text"] ?? "")
    .join("\n");
}

/** Job control gives `kill %1` its meaning; a failed command ends the script. */
async function bash(
  script: string,
  env: NodeJS.ProcessEnv,
  identity: Identity,
  cwd: string,
): Promise<string> {
  const child: ChildProcess = spawn(
    "bash",
    ["-c", `set -emo pipefail; trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n${script}`],
    {
      ...identity,
      cwd,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (text: string) => (output += text));
  const [code] = (await once(child, "close")) as [number | null];
  assert.equal(code, 0, output);
  return output;
}

/** Installs the package in an empty folder. Resolves to the folder of its command. */
async function install(folder: string): Promise<string> {
  const [built, empty] = [join(folder, "built"), join(folder, "empty")];
  await build(built);
  const [packed = ""] = execFileSync("npm", ["pack", "--silent"], { cwd: built, encoding: "utf8" }).split(
    "\n",
  );
  mkdirSync(empty);
  writeFileSync(join(empty, "package.json"), '{ "private": true }');
  const args = ["install", "--prefer-offline", "--no-audit", "--no-fund", "--silent", join(built, packed)];
  execFileSync("npm", args, { cwd: empty });
  return join(empty, "node_modules/.bin");
}

const why = PROGRAMS === undefined ? "no PostgreSQL of the distribution (Debian: postgresql)" : false;

test(
  "the guide to your own PostgreSQL, from three servers to removal",
  { timeout: LIMIT_MS, skip: why },
  async (context) => {
    // Its ports are ours while it lives; its server is not asked.
    await using ports = await startCluster({ nodes: [{ id: "reserves", region: "ports" }] });
    await using folder = await TemporaryFolder.make("highwater-own-");
    await using servers = await TemporaryFolder.make("highwater-servers-");
    const identity: Identity = process.getuid?.() === 0 ? { uid: UNPRIVILEGED, gid: UNPRIVILEGED } : {};
    if (identity.uid !== undefined) chownSync(servers.path, UNPRIVILEGED, UNPRIVILEGED);
    const command = await install(folder.path);
    const names = ["EAST", "WEST", "EUROPE", "GATEWAY", "TRACKER", "WIRE"];
    const free = await Promise.all(
      names.map(async (name) => [name, String(await ports.reservePort())] as const),
    );
    const settings: Record<string, string> = {
      ...Object.fromEntries(free),
      AS_SERVERS: identity.uid === undefined ? "" : AS_UNPRIVILEGED,
      SERVERS: servers.path,
      HIGHWATER_FILES: join(folder.path, "files"),
      PATH: [command, PROGRAMS, process.env["PATH"]].join(delimiter),
      HOME: folder.path,
    };
    // What the page sets is what the test replaces.
    const set = Array.from(blocks("settings").matchAll(/([A-Z_]+)=/g), ([, name]) => name);
    assert.deepEqual(
      set.sort(),
      Object.keys(settings)
        .filter((name) => name !== "HOME")
        .sort(),
    );

    const url = `postgresql://postgres@127.0.0.1:${settings["EAST"] ?? ""}/shop`;
    const query = async (sql: string): Promise<Record<string, unknown>[]> => {
      const client = new pg.Client(url);
      await client.connect();
      try {
        return (await client.query<Record<string, unknown>>(sql)).rows;
      } finally {
        await client.end();
      }
    };
    try {
      await bash(blocks("servers"), settings, identity, servers.path);
      const output = await bash(blocks(undefined), settings, {}, folder.path);
      assert.match(output, /Written: topology\.json/);
      assert.match(output, /nothing endangers promises: 0 danger/);
      assert.match(output, /"state":"durable"/);
      assert.match(output, /^durable at global: it survives/m);
      assert.match(output, /^DONE: us-west is the primary[^]*^DONE: us-east is the primary/m);
      for (const [gap] of output.matchAll(/^No node was writable .*/gm)) context.diagnostic(gap);
      assert.deepEqual(await query("SELECT id, item FROM orders ORDER BY id"), [
        { id: 1, item: "chair" },
        { id: 2, item: "table" },
        { id: 3, item: "lamp" },
        { id: 4, item: "bed" },
      ]);
      assert.deepEqual(await query("SELECT rolname FROM pg_roles WHERE rolname ~ 'highwater'"), []);
      assert.deepEqual(await query("SELECT nspname FROM pg_namespace WHERE nspname ~ 'highwater'"), []);
      assert.deepEqual(await query("SELECT FROM pg_database WHERE datacl::text ~ 'highwater'"), []);
      assert.ok(!existsSync(settings["HIGHWATER_FILES"] ?? ""));
    } finally {
      const stop =
        "for each in $SERVERS/*/postmaster.pid; do pg_ctl stop --silent --mode immediate --pgdata ${each%/*} || true; done";
      await bash(stop, settings, identity, servers.path);
    }
  },
);
