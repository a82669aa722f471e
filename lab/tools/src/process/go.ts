// Builds a program from its source in the Go module proxy, if no distribution, npm or PyPI packages
// it. The module's hash pins its source, and its own go.sum pins its dependencies. Nothing is
// installed outside the given path.
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
  await go(["version"]).catch((cause: unknown) => {
    throw new Error(`Go is needed to build ${module}, and there is none`, { cause });
  });
  const listed = JSON.parse(await go(["mod", "download", "-json", `${module}@${version}`])) as Record<
    string,
    string
  >;
  if (listed["Sum"] !== sum)
    throw new Error(`${module}@${version} has another checksum: ${String(listed["Sum"])}`);
  const fresh = `${path}.${String(process.pid)}`;
  await mkdir(dirname(path), { recursive: true });
  try {
    const flags = ["-s", "-w", ...Object.entries(values).map(([name, value]) => `-X ${name}=${value}`)];
    await go(["build", "-trimpath", `-ldflags=${flags.join(" ")}`, "-o", fresh, folder], listed["Dir"]);
    await rename(fresh, path);
  } finally {
    await rm(fresh, { force: true });
  }
}
