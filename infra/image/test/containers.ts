// Runs the files of an image as a container engine does, with tools of the system: namespaces for
// network, processes and mounts, a root that is read-only where the service asks for it, a user
// without capabilities. The network is a bridge in a namespace of its own; nothing leaves it.
import { type ChildProcess, execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { chown, mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { endGuarded, exitCodeOf, spawnGuarded } from "@highwater/lab-tools/process";
import { type Image, ROOT, run } from "./builder.ts";
import { type Service } from "./compose.ts";

const SUBNET = "172.30.46";
const PREFIX = "hw-image-";
const FIRST_ADDRESS = 10;
const LOG_CHARS = 3_000;

/** As a container engine makes them; every service has a name and an address there. */
export class Network implements AsyncDisposable {
  readonly #prefix = `${PREFIX}${String(process.pid)}`;
  readonly #names: readonly string[];

  private constructor(names: readonly string[]) {
    this.#names = names;
  }

  static async open(names: readonly string[]): Promise<Network> {
    await removeStale();
    const network = new Network(names);
    const bridge = network.#prefix;
    await run("ip", "netns", "add", bridge);
    await run("ip", "-n", bridge, "link", "add", "bridge0", "type", "bridge");
    await run("ip", "-n", bridge, "link", "set", "bridge0", "up");
    for (const [at, name] of names.entries()) {
      const [own, port] = [network.namespace(name), `port${String(at)}`];
      await run("ip", "netns", "add", own);
      const link = ["link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", own];
      await run("ip", "-n", bridge, ...link);
      await run("ip", "-n", bridge, "link", "set", port, "master", "bridge0", "up");
      await run("ip", "-n", own, "addr", "add", `${network.#address(at)}/24`, "dev", "eth0");
      await run("ip", "-n", own, "link", "set", "eth0", "up");
      await run("ip", "-n", own, "link", "set", "lo", "up");
    }
    return network;
  }

  #address(at: number): string {
    return `${SUBNET}.${String(FIRST_ADDRESS + at)}`;
  }

  namespace(name: string): string {
    return `${this.#prefix}-${String(this.#names.indexOf(name))}`;
  }

  hosts(): string {
    const lines = this.#names.map((name, at) => `${this.#address(at)} ${name}`);
    return `127.0.0.1 localhost\n${lines.join("\n")}\n`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const name of this.#names) await run("ip", "netns", "del", this.namespace(name));
    await run("ip", "netns", "del", this.#prefix);
  }
}

/** Networks of runs that were interrupted. */
async function removeStale(): Promise<void> {
  for (const [name, pid = ""] of (await run("ip", "netns", "list")).matchAll(/^hw-image-(\d+)(?:-\d+)?/gm))
    if (!existsSync(`/proc/${pid}`)) await run("ip", "netns", "del", name);
}

export interface ContainerHost {
  readonly network: Network;
  /** For volumes and logs. */
  readonly folder: string;
  /** By the image's name. */
  readonly images: Readonly<Record<string, Image & { readonly root: string }>>;
}

/** The file systems and the user are set up, then the command takes the shell's place. */
const LAUNCH = `
set -eu
mount --make-rprivate /
mount --bind "$ROOT" "$ROOT"
mkdir -p "$ROOT/proc" "$ROOT/dev"
touch "$ROOT/etc/hosts"
for each in $TMPFS; do mkdir -p "$ROOT$each"; done
for each in $BINDS; do mkdir -p "$ROOT$(echo "$each" | cut -d: -f2)"; done
[ "$READ_ONLY" = no ] || mount -o remount,bind,ro "$ROOT"
mount -t proc proc "$ROOT/proc"
mount -t tmpfs -o mode=755 tmpfs "$ROOT/dev"
for each in null zero random urandom; do touch "$ROOT/dev/$each"; mount --bind "/dev/$each" "$ROOT/dev/$each"; done
ln -s /proc/self/fd "$ROOT/dev/fd"
ln -s /proc/self/fd/1 "$ROOT/dev/stdout"
ln -s /proc/self/fd/2 "$ROOT/dev/stderr"
mkdir "$ROOT/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/dev/shm"
mount --bind "$HOSTS" "$ROOT/etc/hosts"
for each in $TMPFS; do mount -t tmpfs -o mode=1777 tmpfs "$ROOT$each"; done
for each in $BINDS; do
  target=$ROOT$(echo "$each" | cut -d: -f2)
  mount --bind "$(echo "$each" | cut -d: -f1)" "$target"
  case $each in *:ro) mount -o remount,bind,ro "$target";; esac
done
exec >> "$LOG" 2>&1
chown "$USER_ID" "$LOG"
exec /usr/sbin/chroot "$ROOT" /usr/bin/setpriv --reuid "$USER_ID" --regid "$GROUP_ID" --clear-groups \\
  --no-new-privs --inh-caps=-all --bounding-set=-all /usr/bin/env -i "$@"
`;

export class Container {
  readonly name: string;
  readonly #service: Service;
  readonly #host: ContainerHost;
  readonly #logFile: string;
  #child: ChildProcess | undefined;

  constructor(name: string, service: Service, host: ContainerHost) {
    this.name = name;
    this.#service = service;
    this.#host = host;
    this.#logFile = join(host.folder, `${name}.log`);
  }

  log(): string {
    return existsSync(this.#logFile) ? readFileSync(this.#logFile, "utf8") : "";
  }

  lastLines(): string {
    return `${this.name}: ${this.log().slice(-LOG_CHARS)}`;
  }

  /** Its own command, or another one beside it. Resolves when the process is there. */
  async #spawn(log: string, command?: readonly string[], extra: Service["environment"] = {}) {
    const { network, folder, images } = this.#host;
    const service = this.#service;
    const image = images[service.image];
    if (image === undefined) throw new Error(`there is no image ${service.image}`);
    const { config, root } = image;
    const { uid, gid } = idsOf(service.user ?? config.User ?? "0:0", root);
    const binds = await Promise.all((service.volumes ?? []).map((volume) => this.#bind(volume, root)));
    await writeFile(join(folder, "hosts"), network.hosts());
    const mark = process.env["HIGHWATER_TEST_RUN"];
    const settings = {
      ...Object.fromEntries(
        (config.Env ?? []).map((each) => each.split(/=(.*)/s).slice(0, 2) as [string, string]),
      ),
      ...service.environment,
      ...extra,
      // By which the runner of all tests finds what a test has left running.
      ...(mark !== undefined && { HIGHWATER_TEST_RUN: mark }),
    };
    const launch = {
      ROOT: root,
      READ_ONLY: service.read_only === true ? "yes" : "no",
      TMPFS: (service.tmpfs ?? []).map((each) => each.split(":")[0]).join(" "),
      BINDS: binds.join(" "),
      HOSTS: join(folder, "hosts"),
      LOG: log,
      USER_ID: String(uid),
      GROUP_ID: String(gid),
    };
    const own = [
      ...(service.entrypoint ?? config.Entrypoint ?? []),
      ...(service.command ?? config.Cmd ?? []),
    ];
    return spawnGuarded(
      [
        ...(["ip", "netns", "exec", network.namespace(this.name)] as const),
        ...["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"],
        ...["env", ...entries(launch), "sh", "-c", LAUNCH, "launch"],
        ...[`--chdir=${config.WorkingDir ?? "/"}`, ...entries(settings), ...(command ?? own)],
      ],
      { detached: true, stderr: "inherit" },
    );
  }

  async #bind(volume: string, root: string): Promise<string> {
    const [source = "", target = "", mode = "rw"] = volume.split(":");
    if (source.startsWith("./")) return `${join(ROOT, source)}:${target}:${mode}`;
    const path = join(this.#host.folder, `volume-${source}`);
    if (!existsSync(path)) {
      await mkdir(path);
      // A new volume belongs to whom the image's folder belongs.
      if (existsSync(join(root, target))) {
        const { uid, gid } = await stat(join(root, target));
        await chown(path, uid, gid);
      }
    }
    return `${path}:${target}:${mode}`;
  }

  async start(): Promise<void> {
    this.#child = await this.#spawn(this.#logFile);
  }

  /** Resolves to its exit code. */
  async ended(): Promise<number> {
    const child = this.#child;
    if (child === undefined) throw new Error(`${this.name} was not started`);
    return codeOf(child);
  }

  isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Runs a command in a container like this one, at this one's address. */
  async execute(
    command: readonly string[],
    extra: Service["environment"] = {},
  ): Promise<{ readonly code: number; readonly output: string }> {
    const log = join(this.#host.folder, `${this.name}-${String(executions++)}.log`);
    const code = await codeOf(await this.#spawn(log, command, extra));
    return { code, output: existsSync(log) ? readFileSync(log, "utf8") : "" };
  }

  /** By a signal; resolves to its exit code. */
  async stop(signal: "TERM" | "INT"): Promise<number> {
    const guard = this.#child?.pid;
    if (guard === undefined) throw new Error(`${this.name} was not started`);
    // The guard's first child is `unshare`, and its child is the service.
    const unshared = await firstChild(guard);
    await promisify(execFile)("kill", [`-${signal}`, await firstChild(unshared)]);
    return this.ended();
  }

  /** With all that runs in it. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child?.pid === undefined) return;
    // The change of user has cut the service off from the death of `unshare`. The end of the first
    // process of a namespace ends all others in it.
    const { pid } = child;
    const first = async (): Promise<string> => firstChild(await firstChild(pid));
    // It may have ended by itself.
    const service = this.isRunning() ? await first().catch(() => "") : "";
    if (service !== "") process.kill(Number(service), "SIGKILL");
    await endGuarded(child);
  }
}

let executions = 0;

async function firstChild(pid: number | string): Promise<string> {
  const { stdout } = await promisify(execFile)("ps", ["--ppid", String(pid), "-o", "pid=", "--sort", "pid"]);
  return stdout.trim().split(/\s+/)[0] ?? "";
}

async function codeOf(child: ChildProcess): Promise<number> {
  if (child.exitCode === null && child.signalCode === null)
    await new Promise((resolve) => child.once("exit", resolve));
  return child.signalCode === null ? (child.exitCode ?? 0) : exitCodeOf(child.signalCode);
}

function entries(variables: Readonly<Record<string, string>>): string[] {
  return Object.entries(variables).map(([name, value]) => `${name}=${value}`);
}

/** `user` is a name of the image, or numbers. */
function idsOf(user: string, root: string): { readonly uid: number; readonly gid: number } {
  const [first = "", second = first] = user.split(":");
  if (/^\d+$/.test(first)) return { uid: Number(first), gid: Number(second) };
  const line = new RegExp(`^${first}:[^:]*:(\\d+):(\\d+):`, "m").exec(
    readFileSync(join(root, "etc/passwd"), "utf8"),
  );
  if (line === null) throw new Error(`the image has no user ${first}`);
  return { uid: Number(line[1]), gid: Number(line[2]) };
}
