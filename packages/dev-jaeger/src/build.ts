// Builds Jaeger from its source, as the Go module proxy has it, into `.tools`: there is no package of it for Linux distributions, npm
// or PyPI that we could find. Its own go.sum pins what it is built from, and the sum below pins that.
// Exit codes: 0 built, or nothing to do; 1 when it cannot be built, with the reason.
import { execFile } from "node:child_process";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { BUILT, isProgram } from "./find.ts";

const MODULE = "github.com/jaegertracing/jaeger";
const VERSION = "v1.76.0";
const SUM = "h1:sWCOOF1dr+NL0PLil7mFo3BqqQL8k4WiM7aguFbc14g=";
const LIMIT_MS = 3_600_000;
const OUTPUT_BYTES = 16 * 1_048_576;

const run = promisify(execFile);
const env = {
  ...process.env,
  // The sums that are pinned say more than a database that is asked for them; and no other Go than the machine's is fetched.
  ...{ GOSUMDB: "off", GOTOOLCHAIN: "local", GOFLAGS: "-mod=readonly -buildvcs=false", CGO_ENABLED: "0" },
};

async function go(args: readonly string[], cwd?: string): Promise<string> {
  const { stdout } = await run("go", args, {
    ...{ env, timeout: LIMIT_MS, maxBuffer: OUTPUT_BYTES },
    ...(cwd !== undefined && { cwd }),
  });
  return stdout;
}

async function build(): Promise<void> {
  await go(["version"]).catch((cause: unknown) => {
    throw new Error("Go is needed to build Jaeger, and there is none", { cause });
  });
  const told = JSON.parse(await go(["mod", "download", "-json", `${MODULE}@${VERSION}`])) as Record<
    string,
    string
  >;
  if (told["Sum"] !== SUM) throw new Error(`${MODULE}@${VERSION} is not what it was: ${String(told["Sum"])}`);
  const fresh = `${BUILT}.${String(process.pid)}`;
  await mkdir(dirname(BUILT), { recursive: true });
  try {
    await go(["build", "-trimpath", "-ldflags=-s -w", "-o", fresh, "./cmd/all-in-one"], told["Dir"]);
    await rename(fresh, BUILT);
  } finally {
    await rm(fresh, { force: true });
  }
}

if (!isProgram(BUILT)) {
  console.log(`building Jaeger ${VERSION}; this takes some five minutes of a core`);
  try {
    await build();
  } catch (cause) {
    console.error(cause instanceof Error ? cause.message : cause);
    process.exitCode = 1;
  }
}
