// Which Terraform (or OpenTofu) there is, where it gets AWS's provider from, and a copy of the modules to run it in: nothing is
// left in the project's own folders. Every program gets the time that its caller allows, and no other credentials than these.
import { execFile } from "node:child_process";
import {
  accessSync,
  constants,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { delimiter, join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const ROOT = fileURLToPath(new URL("..", import.meta.url));
const RULES = fileURLToPath(new URL("../../../dashboards/prometheus", import.meta.url));
export const MODULES = readdirSync(join(ROOT, "modules")).sort();
export const EXAMPLES = readdirSync(join(ROOT, "examples")).sort();
/** Those that a workbench has: the two regions are the three without what its main.tf names. */
export const TRIED_EXAMPLES = [...EXAMPLES, "two-regions"];

/** The program, by path or name; otherwise the first of `terraform` and `tofu` on PATH. */
const PROGRAM_VARIABLE = "HIGHWATER_TERRAFORM";
/** A folder in which, at any depth, lies a `terraform-provider-aws…`. */
const PLUGINS_VARIABLE = "HIGHWATER_TERRAFORM_PLUGINS";
/** Set by `make infra-test`: what takes long runs, too. */
const FULL_VARIABLE = "HIGHWATER_INFRA_FULL";

const PROVIDER = "terraform-provider-aws";
const SEARCH_DEPTH = 8;
const RUN_LIMIT_MS = 15 * 60_000;
const OUTPUT_BYTES_MAX = 64 * 1_048_576;

/** Why there is nothing to run, for tests that then skip; false when there is. */
export function whyNoTerraform(): string | false {
  if (findProgram() !== null) return false;
  return `no Terraform: neither terraform nor tofu is on PATH; ${PROGRAM_VARIABLE} names one`;
}

/** Why what takes long is left out here; false when it is not. */
export function whyNotFull(): string | false {
  if (process.env[FULL_VARIABLE] !== "1") return "takes minutes: make infra-test runs it";
  return whyNoTerraform();
}

function findProgram(): string | null {
  const named = process.env[PROGRAM_VARIABLE] ?? "";
  if (named !== "") return onPath(named);
  return onPath("terraform") ?? onPath("tofu");
}

/** The program of this name, or at this path; null when there is none. */
export function onPath(name: string): string | null {
  const paths = name.includes(sep)
    ? [name]
    : (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, name));
  return paths.find(isProgram) ?? null;
}

export function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

interface Plugin {
  /** The folder `VERSION/PLATFORM` that Terraform unpacks a provider into. */
  readonly folder: string;
  readonly version: string;
  readonly platform: string;
}

/** AWS's provider on this machine, where one is; the registry is asked otherwise. */
function findPlugin(): Plugin | null {
  const named = process.env[PLUGINS_VARIABLE] ?? "";
  const folders = named === "" ? usualFolders() : [named];
  for (const folder of folders) {
    const found = searchPlugin(folder, SEARCH_DEPTH);
    if (found !== null) return found;
  }
  return null;
}

/** Those of Terraform's own documentation, and what an administrator has put beside other programs. */
function usualFolders(): string[] {
  const cache = process.env["TF_PLUGIN_CACHE_DIR"] ?? "";
  const beside = ["/opt", "/usr/local/share", "/usr/share"].flatMap((folder) =>
    namesIn(folder)
      .filter((name) => /terraform|tofu|tf-plugins/.test(name))
      .map((name) => join(folder, name)),
  );
  return [...(cache === "" ? [] : [cache]), join(homedir(), ".terraform.d"), ...beside];
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}

function searchPlugin(folder: string, depth: number): Plugin | null {
  const names = namesIn(folder);
  if (names.some((name) => name.startsWith(PROVIDER) && isProgram(join(folder, name)))) {
    const [version, platform] = folder.split(sep).slice(-2);
    if (version !== undefined && platform !== undefined && /^[0-9]+\./.test(version))
      return { folder, version, platform };
  }
  if (depth === 0) return null;
  for (const name of names) {
    const found = searchPlugin(join(folder, name), depth - 1);
    if (found !== null) return found;
  }
  return null;
}

export interface Ran {
  readonly code: number;
  readonly output: string;
  /** Standard output alone: for what is read by a program. */
  readonly text: string;
}

/** A copy of `infra/terraform` with a program that runs in it. */
export class Workbench {
  readonly folder: string;
  readonly #root: string;
  readonly #program: string;
  readonly #env: Record<string, string>;

  private constructor(root: string, folder: string, program: string, env: Record<string, string>) {
    this.#root = root;
    this.folder = folder;
    this.#program = program;
    this.#env = env;
  }

  /** With the program that is named, or the one that findProgram finds. */
  static async open(program = findProgram()): Promise<Workbench> {
    if (program === null) throw new Error(String(whyNoTerraform()));
    const root = await mkdtemp(join(tmpdir(), "highwater-terraform-"));
    // As deep as in the repository, whose rules a module reads where they are.
    const folder = join(root, "infra/terraform");
    cpSync(RULES, join(root, "dashboards/prometheus"), { recursive: true });
    for (const name of ["modules", "examples", ".tflint.hcl"])
      cpSync(join(ROOT, name), join(folder, name), {
        recursive: true,
        filter: (path) => !/\.terraform(?:\.lock\.hcl)?$|\.tfstate|\.tfvars$/.test(path),
      });
    leaveEuropeOut(join(folder, "examples/three-regions"), join(folder, "examples/two-regions"));
    const configuration = join(folder, "cli.tfrc");
    writeFileSync(configuration, cliConfiguration(folder));
    // Of its own: neither an operator's account nor a proxy may be reached from a test.
    const env = {
      PATH: process.env["PATH"] ?? "",
      HOME: folder,
      TMPDIR: folder,
      TF_CLI_CONFIG_FILE: configuration,
      CHECKPOINT_DISABLE: "1",
      TF_IN_AUTOMATION: "1",
      AWS_EC2_METADATA_DISABLED: "true",
      AWS_ACCESS_KEY_ID: "testing",
      AWS_SECRET_ACCESS_KEY: "testing",
    };
    return new Workbench(root, folder, program, env);
  }

  /** For the module or example in `directory`, instead of those that were written before. */
  async writeVariables(directory: string, variables: object): Promise<void> {
    await writeFile(join(this.folder, directory, "case.auto.tfvars.json"), JSON.stringify(variables));
  }

  /** For what runs from now on. */
  addEnv(env: Readonly<Record<string, string>>): void {
    Object.assign(this.#env, env);
  }

  run(directory: string, ...args: readonly string[]): Promise<Ran> {
    return this.runOther(this.#program, directory, ...args);
  }

  /** What it prints, of either stream, and how it ended; a failure is an answer, too. */
  async runOther(program: string, directory: string, ...args: readonly string[]): Promise<Ran> {
    const options = {
      cwd: join(this.folder, directory),
      env: { ...this.#env, ...markOfRun() },
      timeout: RUN_LIMIT_MS,
      maxBuffer: OUTPUT_BYTES_MAX,
    };
    try {
      const { stdout, stderr } = await promisify(execFile)(program, args, options);
      return { code: 0, output: stdout + stderr, text: stdout };
    } catch (cause) {
      const {
        code,
        stdout = "",
        stderr = "",
      } = cause as { code?: unknown; stdout?: string; stderr?: string };
      if (typeof code !== "number") throw cause;
      return { code, output: stdout + stderr, text: stdout };
    }
  }

  /** With its provider and modules there; a reason to skip when the provider is to be had nowhere. */
  async init(directory: string): Promise<string | null> {
    const ran = await this.run(directory, "init", "-backend=false", "-input=false", "-no-color");
    if (ran.code === 0) return null;
    if (
      findPlugin() === null &&
      /could not connect|no such host|Failed to query|Failed to resolve/i.test(ran.output)
    )
      return `AWS's provider is neither on this machine (${PLUGINS_VARIABLE} names a folder) nor to be had from the registry`;
    throw new Error(`init of ${directory} failed:\n${ran.output}`);
  }

  async close(): Promise<void> {
    await rm(this.#root, { recursive: true, force: true });
  }
}

/** As the first lines of the example's main.tf say how. */
function leaveEuropeOut(three: string, two: string): void {
  mkdirSync(two);
  for (const file of readdirSync(three).filter((name) => name !== "eu-west-1.tf")) {
    const blocks = readFileSync(join(three, file), "utf8").split(/(?<=^\}\n)\n?/m);
    const kept = blocks
      .filter((block) => !/^\w+ .*europe|^ +alias += "europe"/m.test(block))
      .map((block) => block.replaceAll(/^.*(?:europe|eu-west-1).*\n/gm, ""));
    writeFileSync(join(two, file), kept.join("\n"));
  }
}

/** By which the runner of all tests finds what a test has left running. */
function markOfRun(): Record<string, string> {
  const mark = process.env["HIGHWATER_TEST_RUN"];
  return mark === undefined ? {} : { HIGHWATER_TEST_RUN: mark };
}

/** The machine's provider under the addresses that Terraform and OpenTofu know it by; anything else is the registry's. */
function cliConfiguration(folder: string): string {
  const plugin = findPlugin();
  if (plugin === null) return "disable_checkpoint = true\n";
  const mirror = join(folder, "mirror");
  const hosts = ["registry.terraform.io", "registry.opentofu.org"];
  for (const host of hosts) {
    const parent = join(mirror, host, "hashicorp", "aws", plugin.version);
    mkdirSync(parent, { recursive: true });
    symlinkSync(plugin.folder, join(parent, plugin.platform));
  }
  const which = JSON.stringify(hosts.map((host) => `${host}/hashicorp/aws`));
  return `disable_checkpoint = true
provider_installation {
  filesystem_mirror {
    path    = ${JSON.stringify(mirror)}
    include = ${which}
  }
  direct {
    exclude = ${which}
  }
}
`;
}
