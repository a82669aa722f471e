// Builds clients in Go and Java with the machine's tools. Go verifies modules by go.sum; the JDBC
// driver comes from Maven's repository and is verified by its hash.
import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const TOOLS = fileURLToPath(new URL("../../../.tools/clients", import.meta.url));
const LIMIT_MS = 600_000;
const PGJDBC = {
  artifact: "org.postgresql:postgresql:42.7.8",
  file: "postgresql-42.7.8.jar",
  sha256: "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7",
};
/** With a fixed version, like everything that is fetched. */
const MAVEN_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";
/** The minimum in this repository's go.mod files. */
const GO_MINOR_MIN = 25;

const run = promisify(execFile);

function outputOf(program: string, args: readonly string[]): string | undefined {
  try {
    return execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } catch {
    return undefined;
  }
}

/** Why no Go program can be built; false when one can. */
export function whyNoGo(): string | false {
  const minor = /go1\.(\d+)/.exec(outputOf("go", ["version"]) ?? "")?.[1];
  return Number(minor ?? 0) >= GO_MINOR_MIN ? false : `no Go 1.${String(GO_MINOR_MIN)} or newer`;
}

/** Why no Java program can be compiled and run; false when one can. */
export function whyNoJava(): string | false {
  if (outputOf("javac", ["-version"]) === undefined) return "no JDK";
  if (existsSync(join(TOOLS, PGJDBC.file)) || outputOf("mvn", ["-v"]) !== undefined) return false;
  return "no Maven, which fetches the driver for Java";
}

/** Builds the program in a folder, and returns its file in `to`. */
export async function buildGo(folder: string, to: string): Promise<string> {
  const file = join(to, "client");
  const env = { ...process.env, GOTOOLCHAIN: "local", GOFLAGS: "-mod=readonly -buildvcs=false" };
  await run("go", ["build", "-o", file, "."], { cwd: folder, env, timeout: LIMIT_MS });
  return file;
}

/** Compiles one file into `to`, and returns the class path to run it. */
export async function buildJava(file: string, to: string): Promise<string> {
  const driver = await pgjdbc();
  await run("javac", ["-cp", driver, "-d", to, file], { timeout: LIMIT_MS });
  return `${driver}:${to}`;
}

async function pgjdbc(): Promise<string> {
  const file = join(TOOLS, PGJDBC.file);
  if (existsSync(file)) return file;
  const fresh = `${file}.${String(process.pid)}`;
  await mkdir(TOOLS, { recursive: true });
  try {
    const settings = [`-Dartifact=${PGJDBC.artifact}`, `-DoutputDirectory=${fresh}`, "-Dtransitive=false"];
    await run("mvn", ["-q", "-B", MAVEN_COPY, ...settings], { cwd: TOOLS, timeout: LIMIT_MS });
    const content = await readFile(join(fresh, PGJDBC.file));
    const sum = createHash("sha256").update(content).digest("hex");
    if (sum !== PGJDBC.sha256) throw new Error(`${PGJDBC.artifact} has another checksum: ${sum}`);
    await rename(join(fresh, PGJDBC.file), file);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
  return file;
}
