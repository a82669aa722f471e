// A program that is built from its source as the Go module proxy has it: for what no distribution,
// npm or PyPI has a package of. The module's sum pins its source, and its own go.sum what that is
// built from. Nothing is installed outside the path that is named.
import { execFile } from "node:child_process";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";

const LIMIT_MS = 3_600_000;
const OUTPUT_BYTES = 16 * 1_048_576;

export interface GoProgram {
  readonly module: string;
  readonly version: string;
  /** Of the module's files, as a go.sum has it: `h1:…`. */
  readonly sum: string;
  /** The folder of the program within the module; default `.`. */
  readonly folder?: string;
  /** Variables of the program that its releases set, by their full names. */
  readonly values?: Readonly<Record<string, string>>;
}

const run = promisify(execFile);
const env = {
  ...process.env,
  // The sums that are pinned say more than a database that is asked for them; and no other Go than
  // the machine's is fetched.
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

/** Builds it at `path`, whole or not at all. */
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
    throw new Error(`${module}@${version} is not what it was: ${String(listed["Sum"])}`);
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
