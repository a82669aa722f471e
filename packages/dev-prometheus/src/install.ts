// Unpacks the distribution's Prometheus (Debian, Ubuntu) into the project's own `.tools`, with or without root and without
// installing it: apt fetches the package and checks its signature, dpkg unpacks it. Where there is no apt it says so and leaves
// the tests to skip. Exit code 0 in both cases.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { findPrograms, TOOLS, UNPACKED } from "./find.ts";

const PACKAGE = "prometheus";
const FETCH_LIMIT_MS = 300_000;

if (!existsSync(UNPACKED)) {
  await mkdir(TOOLS, { recursive: true });
  const folder = await mkdtemp(join(TOOLS, "prometheus-"));
  try {
    await unpack(folder);
  } catch (cause) {
    const others = findPrograms();
    const next = "why" in others ? "tests that need it will be skipped" : `taking ${others.prometheus}`;
    console.error(`Prometheus could not be unpacked (${messageOf(cause)}); ${next}.`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function unpack(folder: string): Promise<void> {
  await fetchPackage(folder);
  const file = (await readdir(folder)).find((name) => name.endsWith(".deb"));
  if (file === undefined) throw new Error("apt-get fetched nothing");
  const files = join(folder, "files");
  await run("dpkg", ["-x", join(folder, file), files], folder);
  // Whole or not at all: a run that is cut short leaves nothing that looks complete.
  await rename(files, UNPACKED);
}

/** With the machine's package lists; and where these are missing or older than the mirror, with lists of our own. */
async function fetchPackage(folder: string): Promise<void> {
  // Root's apt would hand the download to a user who may not write here.
  const options = ["-q", "-o", "APT::Sandbox::User=root"];
  try {
    await run("apt-get", [...options, "download", PACKAGE], folder);
  } catch {
    const [lists, cache] = [join(folder, "lists"), join(folder, "cache")];
    await mkdir(join(lists, "partial"), { recursive: true });
    await mkdir(join(cache, "archives", "partial"), { recursive: true });
    const own = [...options, "-o", `Dir::State::Lists=${lists}`, "-o", `Dir::Cache=${cache}`];
    await run("apt-get", [...own, "update"], folder);
    await run("apt-get", [...own, "download", PACKAGE], folder);
  }
}

async function run(program: string, args: readonly string[], folder: string): Promise<void> {
  await promisify(execFile)(program, args, { cwd: folder, timeout: FETCH_LIMIT_MS });
}

function messageOf(cause: unknown): string {
  const text = cause instanceof Error ? cause.message : String(cause);
  return text.trim().split("\n").at(-1) ?? "";
}
