// The folder in which programs of the documentation run as they would in a project of their own, and their processes.
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Language } from "./page.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const GLOBALS = new URL("globals.ts", import.meta.url).href;
const PYTHON = join(ROOT, ".venv", "bin", "python");
const PYTHON_SDK = join(ROOT, "sdk", "python");
/** What hangs is ended, and fails. Long: a program waits for the others before each fault, and all of them share the machine. */
const LIMIT_MS = 600_000;

export interface Ended {
  readonly status: number | null;
  readonly output: string;
  readonly errors: string;
}

export class Workshop implements AsyncDisposable {
  readonly folder: string;
  readonly #ended = new AbortController();

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async open(): Promise<Workshop> {
    const folder = await mkdtemp(join(tmpdir(), "highwater-docs-"));
    const modules = join(folder, "node_modules");
    await mkdir(join(modules, "@highwater"), { recursive: true });
    await symlink(join(ROOT, "sdk", "ts"), join(modules, "@highwater", "sdk"));
    await symlink(join(ROOT, "node_modules", "@types"), join(modules, "@types"));
    await writeFile(join(folder, "package.json"), '{ "private": true, "type": "module" }');
    return new Workshop(folder);
  }

  /** A folder inside. */
  async room(name: string): Promise<string> {
    const path = join(this.folder, name);
    await mkdir(path, { recursive: true });
    return path;
  }

  /** Runs a program in a folder of its own inside. */
  async run(language: Language, room: string, code: string, file: string): Promise<Ended> {
    const path = join(room, `${file}.${language === "ts" ? "ts" : "py"}`);
    await writeFile(path, code);
    return language === "ts"
      ? this.#spawn(
          process.execPath,
          ["--import", GLOBALS, "--disable-warning=ExperimentalWarning", path],
          room,
        )
      : this.#spawn(PYTHON, ["-W", "error", path], room);
  }

  /** Checks the types of files inside, as strictly as they can be. Resolves with what is wrong. */
  async checkTypeScript(files: readonly string[]): Promise<string> {
    const compilerOptions = {
      ...{ noEmit: true, strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
      ...{
        noUnusedLocals: true,
        erasableSyntaxOnly: true,
        allowImportingTsExtensions: true,
        skipLibCheck: true,
      },
      ...{ module: "nodenext", target: "es2024", lib: ["es2024", "esnext.disposable"], types: ["node"] },
    };
    await writeFile(join(this.folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
    const compiler = join(ROOT, "node_modules/.bin/tsc");
    const { status, output } = await this.#spawn(process.execPath, [compiler, "-p", "."], this.folder);
    return status === 0 ? "" : output;
  }

  async checkPython(files: readonly string[]): Promise<string> {
    const settings = [
      "--config-file",
      join(PYTHON_SDK, "pyproject.toml"),
      "--cache-dir",
      // That of make typecheck: most of what is checked is the same.
      join(ROOT, ".mypy_cache"),
    ];
    const paths = files.map((file) => join(this.folder, file));
    const args = ["-m", "mypy", ...settings, "--scripts-are-modules", ...paths];
    const { status, output, errors } = await this.#spawn(PYTHON, args, PYTHON_SDK);
    return status === 0 ? "" : output + errors;
  }

  async #spawn(program: string, args: readonly string[], cwd: string): Promise<Ended> {
    return new Promise((resolve, reject) => {
      const child = spawn(program, args, {
        ...{ cwd, stdio: ["ignore", "pipe", "pipe"], killSignal: "SIGKILL" },
        signal: AbortSignal.any([this.#ended.signal, AbortSignal.timeout(LIMIT_MS)]),
        env: {
          ...process.env,
          ...{ PYTHONPATH: join(PYTHON_SDK, "src"), PYTHONDONTWRITEBYTECODE: "1", NO_PROXY: "127.0.0.1" },
        },
      });
      let [output, errors] = ["", ""];
      child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
      child.stderr?.setEncoding("utf8").on("data", (text: string) => (errors += text));
      child.once("error", (error) => {
        // Its output until the end says more.
        if (child.pid === undefined) reject(error);
        else errors += String(error);
      });
      child.once("close", (status) => {
        resolve({ status, output, errors });
      });
    });
  }

  /** Ends what still runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended.abort();
    await rm(this.folder, { recursive: true, force: true });
  }
}
