// Builds images with buildah, which needs no daemon: the base from the distribution's own bootstrap
// with the pinned Node, and on it the product's image. Bases stay in `.tools/image`.
import { execFile, execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import MANIFEST from "../../../package.json" with { type: "json" };

export const ROOT = join(import.meta.dirname, "../../..");
const FOLDER = join(ROOT, ".tools/image");
const NODE = `localhost/node:${MANIFEST.devDependencies.node}`;
const SERVERS = `localhost/servers:${MANIFEST.devDependencies.node}`;
const PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const STEP_LIMIT_MS = 15 * 60_000;
const TOOLS = ["buildah", "mmdebstrap", "ip", "unshare", "setpriv"];

/** Why there can be no image here; false if there can be. */
export function whyNoBuild(): string | false {
  if (process.env["HIGHWATER_INFRA_FULL"] !== "1") return "make infra-test builds and runs it, for minutes";
  if (process.getuid?.() !== 0) return "building and running images here needs root";
  const missing = TOOLS.filter((name) => !isOnPath(name));
  if (missing.length === 0) return false;
  return `${missing.join(", ")} missing: apt-get install buildah mmdebstrap iproute2 util-linux`;
}

function isOnPath(name: string): boolean {
  return (process.env["PATH"] ?? "").split(":").some((folder) => existsSync(join(folder, name)));
}

export interface Image {
  readonly id: string;
  readonly config: {
    readonly User?: string;
    readonly Env?: readonly string[];
    readonly Entrypoint?: readonly string[];
    readonly Cmd?: readonly string[];
    readonly WorkingDir?: string;
    readonly Labels?: Readonly<Record<string, string>>;
  };
}

async function buildah(...args: readonly string[]): Promise<string> {
  const own = [
    ...["--root", join(FOLDER, "storage"), "--runroot", join(FOLDER, "run")],
    ...["--storage-driver", "vfs", ...args],
  ];
  const { stdout } = await promisify(execFile)("buildah", own, {
    cwd: ROOT,
    timeout: STEP_LIMIT_MS,
    maxBuffer: 64 * 1_048_576,
  });
  return stdout.trim();
}

async function hasImage(name: string): Promise<boolean> {
  return buildah("inspect", "--type", "image", name).then(
    () => true,
    () => false,
  );
}

/** Debian with the pinned Node and npm: what the official image of Node has. Resolves to its name. */
export async function nodeBase(): Promise<string> {
  if (await hasImage(NODE)) return NODE;
  await mkdir(FOLDER, { recursive: true });
  const archive = join(FOLDER, "debian.tar");
  await run("mmdebstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", archive);
  const container = await buildah("from", "scratch");
  const npm = join(execFileSync("npm", ["root", "-g"], { encoding: "utf8" }).trim(), "npm");
  const node = "/usr/local/lib/node_modules/npm";
  await buildah("add", "-q", container, archive, "/");
  await buildah("copy", "-q", container, process.execPath, "/usr/local/bin/node");
  await buildah("copy", "-q", container, npm, node);
  await inside(container, "ln", "-s", `${node}/bin/npm-cli.js`, "/usr/local/bin/npm");
  await buildah("config", "--env", `PATH=${PATH}`, container);
  await buildah("commit", "-q", "--rm", "--timestamp", "0", container, NODE);
  await rm(archive);
  return NODE;
}

/** The same Debian with the distribution's PostgreSQL and an Envoy: for the images of compose.yaml. */
export async function serversImage(envoy: string): Promise<string> {
  if (await hasImage(SERVERS)) return SERVERS;
  const container = await buildah("from", "--pull-never", await nodeBase());
  await inside(container, "apt-get", "-q", "update");
  const install = ["apt-get", "-qy", "-o", "APT::Sandbox::User=root", "install", "--no-install-recommends"];
  await inside(container, "env", "DEBIAN_FRONTEND=noninteractive", ...install, "postgresql-15");
  await inside(container, "sh", "-c", "rm -rf /var/lib/postgresql/*; chown postgres /var/lib/postgresql");
  await buildah("copy", "-q", container, envoy, "/usr/local/bin/envoy");
  await buildah("config", "--env", `PATH=/usr/lib/postgresql/15/bin:${PATH}`, container);
  await buildah("commit", "-q", "--rm", container, SERVERS);
  return SERVERS;
}

function inside(container: string, ...command: readonly string[]): Promise<string> {
  return buildah("run", "--isolation", "chroot", container, "--", ...command);
}

/** Builds the product's image as its users do, and gives it the name. */
export async function buildImage(name: string, base: string, folder: string): Promise<Image> {
  const id = join(folder, "image-id");
  const settings = join(folder, "npmrc");
  // The build reaches npm's registry as this machine does.
  const registry = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8" }).trim();
  await writeFile(
    settings,
    `registry=${registry}\ncafile=/etc/ssl/certs/ca-certificates.crt\nprefer-offline=true\n`,
  );
  const cache = join(homedir(), ".npm");
  await mkdir(cache, { recursive: true });
  await buildah(
    ...["build", "--isolation", "chroot", "--no-cache", "--pull-never", "--timestamp", "0"],
    ...["--ignorefile", "infra/image/Dockerfile.dockerignore", "--file", "infra/image/Dockerfile"],
    ...["--build-arg", `NODE_IMAGE=${base}`, "--tag", name, "--iidfile", id],
    ...["--volume", `${settings}:/root/.npmrc:ro`, "--volume", `${cache}:/root/.npm`],
    ...["--volume", "/etc/ssl/certs:/etc/ssl/certs:ro", "."],
  );
  return inspect(readFileSync(id, "utf8").trim());
}

export async function inspect(name: string): Promise<Image> {
  const found = JSON.parse(await buildah("inspect", "--type", "image", name)) as {
    readonly FromImageID: string;
    readonly OCIv1: { readonly config: Image["config"] };
  };
  return { id: found.FromImageID, config: found.OCIv1.config };
}

/** Why buildah builds no image of these arguments; null if it does. */
export async function refusalOf(args: readonly string[]): Promise<string | null> {
  const build = ["build", "--isolation", "chroot", "--pull-never", "-f", "infra/image/Dockerfile"];
  return buildah(...build, ...args, ".").then(
    () => null,
    (cause: unknown) => String((cause as { readonly stderr?: string }).stderr),
  );
}

/** The files of an image, until it is disposed of. */
export async function mountImage(name: string): Promise<AsyncDisposable & { readonly path: string }> {
  const container = await buildah("from", "--pull-never", name);
  return {
    path: await buildah("mount", container),
    [Symbol.asyncDispose]: async () => {
      await buildah("rm", container);
    },
  };
}

export async function removeImage(name: string): Promise<void> {
  await buildah("rmi", "--force", name);
}

export async function run(program: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(program, args, { timeout: STEP_LIMIT_MS });
  return stdout.trim();
}
