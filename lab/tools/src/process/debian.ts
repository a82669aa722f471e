// Unpacks packages of the distribution (Debian, Ubuntu) without installing them and without root:
// apt fetches each package and checks its signature, dpkg unpacks it.
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const FETCH_LIMIT_MS = 300_000;

/**
 * Unpacks the packages into `to`, completely or not at all. Errors: the last line of apt's or
 * dpkg's output.
 */
export async function unpackDebian(names: readonly string[], to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  const folder = await mkdtemp(`${to}-`);
  try {
    await fetchPackages(names, folder);
    const packages = (await readdir(folder)).filter((each) => each.endsWith(".deb"));
    if (packages.length === 0) throw new Error("apt-get fetched nothing");
    const files = join(folder, "files");
    for (const file of packages) await run("dpkg", ["-x", join(folder, file), files], folder);
    await rename(files, to);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Uses the machine's package lists, or lists of its own if those are missing or out of date. */
async function fetchPackages(names: readonly string[], folder: string): Promise<void> {
  // As root, apt would give the download to a user who may not write here.
  const options = ["-q", "-o", "APT::Sandbox::User=root"];
  try {
    await run("apt-get", [...options, "download", ...names], folder);
  } catch {
    const [lists, cache] = [join(folder, "lists"), join(folder, "cache")];
    await mkdir(join(lists, "partial"), { recursive: true });
    await mkdir(join(cache, "archives", "partial"), { recursive: true });
    const own = [...options, "-o", `Dir::State::Lists=${lists}`, "-o", `Dir::Cache=${cache}`];
    await run("apt-get", [...own, "update"], folder);
    await run("apt-get", [...own, "download", ...names], folder);
  }
}

async function run(program: string, args: readonly string[], folder: string): Promise<void> {
  try {
    await promisify(execFile)(program, args, { cwd: folder, timeout: FETCH_LIMIT_MS });
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    throw new Error(text.trim().split("\n").at(-1) ?? "", { cause });
  }
}
