// Builds a program from its source in the Go module proxy, if no distribution, npm or PyPI packages
// it. The module's hash pins its source, and its own go.sum pins its dependencies; or a go.sum of
// ours pins both. Nothing is installed outside the given path.
import { execFile } from "node:child_process";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";

const LIMIT_MS = 3_600_000;
const OUTPUT_BYTES = 16 * 1_048_576;

export interface GoProgram {
  readonly module: string;
  readonly version: string;
  /** The hash of the module's files, as in go.sum: `h1:…`. */
  readonly sum: string;
  /** The program's folder in the module. Default: `.`. */
  readonly folder?: string;
  /** Variables that releases of the program set, by their full names. */
  readonly values?: Readonly<Record<string, string>>;
}

const run = promisify(execFile);
const env = {
  ...process.env,
  // No checksum database, because the hashes are pinned; and no other Go than the machine's is
  // downloaded.
  GOSUMDB: "off",
  GOTOOLCHAIN: "local",
  GOFLAGS: "-mod=readonly -buildvcs=false",
  CGO_ENABLED: "0",
};

async function go(args: readonly string[], cwd?: string): Promise<string> {
  const { stdout } = await run("go", args, {
    env,
    timeout: LIMIT_MS,
    maxBuffer: OUTPUT_BYTES,
    ...(cwd !== undefined && { cwd }),
  });
  return stdout;
}

/** Builds it at `path`, completely or not at all. */
export async function buildGoProgram(
  { module, version, sum, folder = ".", values = {} }: GoProgram,
  path: string,
): Promise<void> {
  await needGo(module);
  const listed = JSON.parse(await go(["mod", "download", "-json", `${module}@${version}`])) as Record<
    string,
    string
  >;
  if (listed["Sum"] !== sum)
    throw new Error(`${module}@${version} has another checksum: ${String(listed["Sum"])}`);
  const flags = Object.entries(values).map(([name, value]) => `-X ${name}=${value}`);
  await build(folder, { cwd: listed["Dir"] ?? "", flags, path });
}

/**
 * Builds the program of a package whose module cannot be built by itself: its go.mod replaces
 * modules by folders of its repository. `folder`: with a go.mod and a go.sum that pin it.
 */
export async function buildPinnedProgram(name: string, folder: string, path: string): Promise<void> {
  await needGo(name);
  await build(name, { cwd: folder, flags: [], path });
}

async function needGo(what: string): Promise<void> {
  await go(["version"]).catch((cause: unknown) => {
    throw new Error(`Go is needed to build ${what}, and there is none`, { cause });
  });
}

async function build(
  what: string,
  { cwd, flags, path }: { readonly cwd: string; readonly flags: readonly string[]; readonly path: string },
): Promise<void> {
  const fresh = `${path}.${String(process.pid)}`;
  await mkdir(dirname(path), { recursive: true });
  try {
    await go(["build", "-trimpath", `-ldflags=${["-s", "-w", ...flags].join(" ")}`, "-o", fresh, what], cwd);
    await rename(fresh, path);
  } finally {
    await rm(fresh, { force: true });
  }
}
