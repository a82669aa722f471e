// Goal: a cluster leaves nothing behind, however it, its parts or its caller end, and reports why
// it cannot start. Finds processes through /proc, so Linux only.

import assert from "node:assert/strict";
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:fs";
import { access, chmod, chown, mkdir, readdir, writeFile } from "node:fs/promises";
import net from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { describe, it } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { startCluster } from "../src/index.ts";
import { descendants, isAlive } from "../src/processes.ts";
import { canReach } from "../src/unprivileged.ts";
import { makeTempParent, packageDir, processesUsing } from "./support.ts";

type Program = ChildProcessByStdio<Writable, Readable, null>;

const fixture = path.join(packageDir, "test", "fixtures", "hold-cluster.ts");
const cli = path.join(packageDir, "src", "cli.ts");

function run(args: string[], temp: string, options: { uid?: number; gid?: number } = {}): Program {
  const env = { ...process.env, TMPDIR: temp, HOME: temp };
  // Without a template, so that initdb runs and may be interrupted.
  for (const name of ["NODE_TEST_CONTEXT", "HIGHWATER_PG_TEMPLATES"]) delete (env as NodeJS.ProcessEnv)[name];
  return spawn(process.execPath, args, { ...options, cwd: "/", env, stdio: ["pipe", "pipe", "inherit"] });
}

/** The program's first line that matches. */
async function line(program: Program, pattern: RegExp): Promise<string> {
  for await (const text of createInterface({ input: program.stdout })) if (pattern.test(text)) return text;
  throw new Error(`the program ended without ${String(pattern)}`);
}

async function nothingLeft(temp: string, pids: readonly number[]): Promise<void> {
  await eventually("no process is left", async () =>
    (await Promise.all(pids.map(isAlive))).every((up) => !up),
  );
  await eventually("no process uses the folder", async () => (await processesUsing(temp)).length === 0);
  await eventually("no folder is left", async () => (await readdir(temp)).length === 0);
}

const onLinux = { skip: process.platform === "linux" ? false : "needs /proc" };

describe("no process and no folder is left", onLinux, () => {
  it("after SIGKILL of the caller", async () => {
    await using temp = await makeTempParent();
    const program = run([fixture, "hold"], temp.dir);
    await line(program, /dir/);
    const pids = await descendants(program.pid ?? 0);
    assert.ok(pids.length > 10, "the supervisor, three postmasters and their children");
    program.kill("SIGKILL");
    await nothingLeft(temp.dir, pids);
  });

  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    it(`after ${signal} of a caller that does not listen for it`, async () => {
      await using temp = await makeTempParent();
      const program = run([fixture, "hold"], temp.dir);
      await line(program, /dir/);
      const pids = await descendants(program.pid ?? 0);
      program.kill(signal);
      assert.deepEqual(await once(program, "exit"), [null, signal], "the caller's signals are its own");
      await nothingLeft(temp.dir, pids);
    });

  it("after SIGKILL of the caller at any moment of the start", async () => {
    // The processes at the moment of the kill: only the supervisor, initdb, or starting servers.
    for (const processCount of [1, 2, 6]) {
      await using temp = await makeTempParent();
      const program = run([fixture, "hold"], temp.dir);
      const pids = await eventually("the start is under way", async () => {
        const found = await descendants(program.pid ?? 0);
        return found.length >= processCount && found;
      });
      program.kill("SIGKILL");
      await nothingLeft(temp.dir, pids);
    }
  });

  it("after the caller's plain end without closing", async () => {
    await using temp = await makeTempParent();
    const program = run([fixture, "forget"], temp.dir);
    const [code] = (await once(program, "exit")) as [number];
    assert.equal(code, 0);
    await nothingLeft(temp.dir, []);
  });

  it("after SIGKILL of the supervisor, and calls then say so", async () => {
    await using cluster = await startCluster({ nodes: [{ id: "one", region: "r" }] });
    const pids = await processesUsing(cluster.dir);
    const supervisor = (await descendants(process.pid)).find((pid) => pids.includes(pid));
    assert.ok(supervisor !== undefined);
    const all = await descendants(supervisor);
    const pending = assert.rejects(cluster.query("one", "SELECT pg_sleep(600)"), { code: "SUPERVISOR_DIED" });
    await eventually("the query runs", async () => {
      const rows = await cluster.query("one", "SELECT FROM pg_stat_activity WHERE query LIKE '%sleep(600)' ");
      return rows.length > 0;
    });
    process.kill(supervisor, "SIGKILL");
    await pending;
    assert.ok((await Promise.all(all.map(isAlive))).every((up) => !up));
    await assert.rejects(access(cluster.dir));
    await assert.rejects(cluster.status(), { code: "SUPERVISOR_DIED" });
  });

  it("after Ctrl-C of the command, with a node killed and another paused", async () => {
    await using temp = await makeTempParent();
    const program = run([cli, "--json"], temp.dir);
    await line(program, /"dir"/);
    const pids = await descendants(program.pid ?? 0);
    program.stdin.write("kill us-west\npause eu-west\nstatus\n");
    await line(program, /paused/);
    program.kill("SIGINT");
    const [code] = (await once(program, "exit")) as [number];
    assert.equal(code, 0);
    await nothingLeft(temp.dir, pids);
  });

  it("when an ordinary user runs it", async (test) => {
    const asRoot = process.getuid?.() === 0;
    const user = { uid: 65534, gid: 65534 };
    if (asRoot && !(await canReach(process.execPath, user, constants.X_OK)))
      return test.skip("an ordinary user cannot enter the folder of this checkout");
    await using temp = await makeTempParent();
    const program = run([fixture, "close"], temp.dir, asRoot ? user : {});
    const said = JSON.parse(await line(program, /dir/)) as { user: string; uid: number };
    assert.equal(said.user, "postgres");
    assert.notEqual(said.uid, 0);
    await nothingLeft(temp.dir, []);
  });

  it("when the servers' user cannot enter the installed package", async (test) => {
    if (process.getuid?.() !== 0) return test.skip("only root runs the servers as another user");
    // A user without files, and a temporary folder that only root may enter: /tmp is used instead.
    await using temp = await makeTempParent();
    const closed = path.join(temp.dir, "closed");
    await mkdir(closed, { mode: 0o700 });
    const program = run([fixture, "close"], closed);
    const said = JSON.parse(await line(program, /dir/)) as { dir: string };
    assert.ok(!said.dir.startsWith(closed));
    await eventually("its folder is gone", async () =>
      access(said.dir).then(
        () => false,
        () => true,
      ),
    );
  });
});

describe("a start that cannot succeed says why", () => {
  it("a fixed port in use, by port and node", async () => {
    const server = net.createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as net.AddressInfo;
    await assert.rejects(startCluster({ nodes: [{ id: "one", region: "r", port }] }), (error: Error) => {
      assert.equal((error as { code?: string }).code, "PORT_IN_USE");
      assert.match(error.message, new RegExp(`${port}.*one`));
      return true;
    });
    server.close();
  });

  it("a setting that PostgreSQL refuses, with the end of its log", async () => {
    const nodes = [{ id: "one", region: "r" }];
    await assert.rejects(startCluster({ nodes, settings: { shared_buffers: "a lot" } }), (error: Error) => {
      assert.equal((error as { code?: string }).code, "START_FAILED");
      assert.match(error.message, /shared_buffers/);
      return true;
    });
    await assert.rejects(startCluster({ nodes, settings: { "x\ny": "1" } }), { code: "BAD_OPTION" });
  });

  it("options that make no cluster", async () => {
    for (const nodes of [
      [],
      [{ id: "a b", region: "r" }],
      [{ id: "a", region: "r", port: 70_000 }],
      [
        { id: "a", region: "r" },
        { id: "a", region: "s" },
      ],
    ]) {
      await assert.rejects(startCluster({ nodes }), { code: "BAD_OPTION" });
    }
    await assert.rejects(startCluster({ roundTripMs: { "us-east": 3 } }), { code: "BAD_OPTION" });
  });

  it("binaries that are missing or too old", async () => {
    await using temp = await makeTempParent();
    await assert.rejects(startCluster({ pgBinDir: temp.dir }), { code: "PG_BINARIES_MISSING" });
    for (const name of ["postgres", "initdb"]) {
      const file = path.join(temp.dir, name);
      await writeFile(file, `#!/bin/sh\necho "${name} (PostgreSQL) 14.9"\n`);
      await chmod(file, 0o755);
      await chown(file, process.getuid?.() ?? 0, process.getgid?.() ?? 0);
    }
    await assert.rejects(startCluster({ pgBinDir: temp.dir }), { code: "PG_TOO_OLD" });
  });
});

it("runs another PostgreSQL installation", async (test) => {
  const pgBinDir = "/usr/lib/postgresql/15/bin";
  const installed = await access(pgBinDir).then(
    () => true,
    () => false,
  );
  if (!installed) return test.skip(`no ${pgBinDir}`);
  await using cluster = await startCluster({ pgBinDir });
  assert.match(
    String((await cluster.query("us-east", "SHOW server_version"))[0]?.["server_version"]),
    /^15\./,
  );
  await cluster.kill("us-east");
  // The other one could not follow a primary that lacks log that it has.
  const heir = await cluster.mostAdvancedReplica();
  await cluster.promote(heir);
  await cluster.rejoin("us-east");
  await cluster.waitForStreaming();
  const rows = await cluster.query(heir, "SELECT count(*)::int AS n FROM pg_stat_replication");
  assert.deepEqual(rows, [{ n: 2 }]);
});
