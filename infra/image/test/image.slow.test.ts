// The image without a container engine: each instruction of the Dockerfile is carried out as a plain command in a folder, and
// what it then holds is started. It does not test what only a container engine can show: the base image, users, volumes.
import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { TEST_DEPLOYMENT } from "@highwater/service/testing";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const DOCKERFILE = readFileSync(join(ROOT, "infra/image/Dockerfile"), "utf8");
const STEP_LIMIT_MS = 10 * 60_000;
const START_LIMIT_MS = 120_000;

/** Instructions that say how an image is built or run, and leave nothing in its files. */
const NO_FILES = new Set(["ARG", "VOLUME", "ENV", "USER", "CMD"]);

interface Step {
  readonly word: string;
  readonly rest: string;
}

const STEPS: readonly Step[] = DOCKERFILE.split("\n")
  .filter((line) => line.trim() !== "" && !line.startsWith("#"))
  .map((line) => {
    const [word = "", ...rest] = line.split(" ");
    return { word, rest: rest.join(" ") };
  });

describe("the image", () => {
  it("has the Node that is pinned for everything, and ends as a user without rights", () => {
    const { devDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      devDependencies: Record<string, string>;
    };
    const bases = STEPS.filter(({ word }) => word === "FROM");
    for (const { rest } of bases) assert.match(rest, new RegExp(`^node:${devDependencies["node"] ?? "?"}-`));
    assert.equal(STEPS.findLast(({ word }) => word === "USER")?.rest, "node");
  });

  it("is built on the base that a digest names, and on none without one", () => {
    const bases = STEPS.filter(({ word }) => word === "FROM");
    assert.equal(bases.length, 3);
    for (const { rest } of bases) assert.match(rest, /^[^ @]+@\$\{NODE_DIGEST\}( AS (console|build))?$/);
    // An argument without a default: an empty digest is no reference that a builder takes.
    assert.deepEqual(
      STEPS.filter(({ word }) => word === "ARG").map(({ rest }) => rest),
      ["NODE_DIGEST"],
    );
    assert.ok(STEPS.findIndex(({ word }) => word === "ARG") < STEPS.findIndex(({ word }) => word === "FROM"));
  });

  describe("carried out as plain commands", () => {
    let folder: string;
    let files: string;
    const children: ChildProcess[] = [];
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), "highwater-image-"));
      files = await carryOut(folder);
    });
    after(async () => {
      for (const child of children)
        if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await rm(folder, { recursive: true, force: true });
    });

    it("holds the authorities of RDS, and no development packages", () => {
      const authorities = readFileSync(join(files, "etc/highwater/rds-authorities.pem"), "utf8");
      assert.ok(authorities.split("BEGIN CERTIFICATE").length > 50);
      for (const name of ["typescript", "oxlint", "oxfmt", "esbuild", "preact"])
        assert.ok(!existsSync(join(files, "app/node_modules", name)), `${name} is in the image`);
      for (const path of ["var/lib/highwater", "etc/highwater-edge"])
        assert.ok(existsSync(join(files, path)));
    });

    for (const { program, variables } of [
      { program: "services/txn-gateway/src/main.ts", variables: environment("GATEWAY") },
      { program: "services/durability-tracker/src/main.ts", variables: environment("TRACKER") },
    ])
      it(`${program} starts, answers /healthz and ends at a signal`, async () => {
        const child = spawn(process.execPath, [program], {
          cwd: join(files, "app"),
          stdio: ["ignore", "pipe", "ignore"],
          env: {
            ...variables,
            ...markOfRun(),
            ...(program.includes("tracker")
              ? { TRACKER_LEDGER: join(files, "var/lib/highwater/ledger.sqlite") }
              : {}),
            NODE_EXTRA_CA_CERTS: join(files, "etc/highwater/rds-authorities.pem"),
          },
        });
        children.push(child);
        const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
        const url = await addressOf(child);
        const answer = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(START_LIMIT_MS) });
        assert.equal(answer.status, 200);
        if (program.includes("tracker")) {
          const page = await fetch(`${url}/console/app.js`, { signal: AbortSignal.timeout(START_LIMIT_MS) });
          assert.equal(page.status, 200, "the console is in the image");
        }
        child.kill("SIGTERM");
        assert.equal(await ended, 0);
      });

    for (const program of ["database-roles", "failover-preview", "authorize", "failover-verify"])
      it(`${program} is there with all that it needs, and says which settings are missing`, async () => {
        const running = promisify(execFile)(process.execPath, [`infra/image/src/${program}.ts`], {
          cwd: join(files, "app"),
          env: markOfRun(),
          timeout: START_LIMIT_MS,
        });
        await assert.rejects(running, { code: 2 });
      });

    it("makes an edge's configuration from its source", async () => {
      const source = join(files, "etc/highwater-edge/source.json");
      writeFileSync(source, readFileSync(join(ROOT, "infra/envoy/example/us-east.json")));
      const out = join(files, "etc/highwater-edge");
      const made = promisify(execFile)(process.execPath, ["infra/envoy/src/cli.ts", source, "--out", out], {
        cwd: join(files, "app"),
        timeout: STEP_LIMIT_MS,
      });
      await made;
      assert.ok("static_resources" in (JSON.parse(readFileSync(join(out, "envoy.json"), "utf8")) as object));
    });
  });
});

/** Its nodes cannot be reached: a service starts without them, and says so at /readyz. */
function environment(prefix: "GATEWAY" | "TRACKER"): Record<string, string> {
  const topology = {
    nodes: [{ id: "only", region: "here", zone: "a", url: "postgresql://nobody@127.0.0.1:1/app" }],
    levels: { disk: { primary: true } },
  };
  return {
    [`${prefix}_NAME`]: "one",
    [`${prefix}_REGION`]: "here",
    [`${prefix}_HOST`]: "127.0.0.1",
    [`${prefix}_PORT`]: "0",
    HIGHWATER_TOPOLOGY: JSON.stringify(topology),
    ...TEST_DEPLOYMENT,
  };
}

/** By which the runner of all tests finds what a test has left running. */
function markOfRun(): Record<string, string> {
  const mark = process.env["HIGHWATER_TEST_RUN"];
  return mark === undefined ? {} : { HIGHWATER_TEST_RUN: mark };
}

async function addressOf(child: ChildProcess): Promise<string> {
  const { stdout } = child;
  if (stdout === null) throw new Error("the service has no output");
  const limit = AbortSignal.timeout(START_LIMIT_MS);
  for await (const line of createInterface({ input: stdout, signal: limit }))
    return (JSON.parse(line) as { url: string }).url;
  throw new Error("the service did not say where it listens");
}

/** Each stage is a folder, which stands for its `/`. Answers the last one. */
async function carryOut(folder: string): Promise<string> {
  const stages = new Map<string, string>();
  let [root, workdir, count] = ["", "/", 0];
  for (const { word, rest } of STEPS) {
    if (word === "FROM") {
      count++;
      root = join(folder, `stage-${String(count)}`);
      stages.set(/ AS (\w+)$/.exec(rest)?.[1] ?? String(count), root);
      mkdirSync(root);
    } else if (word === "WORKDIR") {
      workdir = rest;
      mkdirSync(join(root, workdir), { recursive: true });
    } else if (word === "COPY") copy(rest, { root, workdir, stages });
    else if (word === "RUN") await run(rest, join(root, workdir), folder);
    else assert.ok(NO_FILES.has(word), `${word} is not known to this test`);
  }
  return root;
}

interface BuildPlace {
  readonly root: string;
  readonly workdir: string;
  readonly stages: ReadonlyMap<string, string>;
}

function copy(rest: string, { root, workdir, stages }: BuildPlace): void {
  const words = rest.split(" ");
  const from = words.find((word) => word.startsWith("--from="))?.slice("--from=".length);
  const paths = words.filter((word) => !word.startsWith("--"));
  const target = paths.pop() ?? "";
  const origin = from === undefined ? ROOT : (stages.get(from) ?? assert.fail(`no stage ${from}`));
  const to = target.startsWith("/") ? join(root, target) : join(root, workdir, target);
  for (const path of paths) {
    const place = target.endsWith("/") ? join(to, basename(path)) : to;
    mkdirSync(dirname(place), { recursive: true });
    cpSync(join(origin, path), place, {
      recursive: true,
      verbatimSymlinks: true,
      // As Dockerfile.dockerignore says of what comes from outside.
      filter: (name) => from !== undefined || basename(name) !== "node_modules",
    });
  }
}

/** With this Node as `node`: the base image has the same one. */
async function run(command: string, cwd: string, folder: string): Promise<void> {
  const path = `${dirname(process.execPath)}${delimiter}${process.env["PATH"] ?? ""}`;
  const env = { ...process.env, PATH: path, npm_config_cache: join(folder, "npm-cache") };
  await promisify(execFile)("sh", ["-ec", command], {
    cwd,
    env,
    timeout: STEP_LIMIT_MS,
    maxBuffer: 16 * 1_048_576,
  });
}
