// A real browser for tests and dashboards, without root and without an installation: the headless
// Chromium of an npm package for Linux x64, or the machine's own. It opens only our own pages, so
// it runs without a sandbox, even as root.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import { type Browser, chromium } from "playwright-core";

export { type Browser, type BrowserContext, type Page } from "playwright-core";

/** The path of another Chromium, the only one that is then tried. */
export const BROWSER_VARIABLE = "HIGHWATER_CHROMIUM";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/** Unpacking takes a few seconds of one core. */
const UNPACK_LIMIT_MS = 300_000;
const LAUNCH_LIMIT_MS = 120_000;

type Found = { readonly path: string } | "packed" | { readonly why: string };

export interface Machine {
  readonly platform: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly exists: (path: string) => boolean;
}

const HERE: Machine = {
  platform: `${process.platform} ${process.arch}`,
  env: process.env,
  exists: existsSync,
};

export function findBrowser({ platform, env, exists }: Machine = HERE): Found {
  const named = env[BROWSER_VARIABLE] ?? "";
  if (named !== "") return { path: named };
  if (platform === "linux x64") return "packed";
  const candidates = (env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  const path = candidates.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(exists);
  if (path !== undefined) return { path };
  return {
    why: `no browser: none is packed for ${platform}, and none of ${NAMES.join(", ")} is in PATH; ${BROWSER_VARIABLE} names one`,
  };
}

/** Why this machine has no browser, for tests to skip; false when it has one. */
export function whyNoBrowser(machine?: Machine): string | false {
  const found = findBrowser(machine);
  return typeof found === "object" && "why" in found && found.why;
}

export interface DevBrowser extends AsyncDisposable {
  readonly browser: Browser;
  close(): Promise<void>;
}

/**
 * Starts it in its own folder, which holds everything that it writes and is removed at its end. It
 * ends with this process. Errors: `whyNoBrowser`, or Playwright's error when it does not start.
 */
export async function launchBrowser(): Promise<DevBrowser> {
  const found = findBrowser();
  if (typeof found === "object" && "why" in found) throw new Error(found.why);
  const temporary = await TemporaryFolder.make("highwater-browser-");
  const folder = temporary.path;
  try {
    const { path, env } = found === "packed" ? await unpack(folder) : { path: found.path, env: {} };
    const browser = await chromium.launch({
      executablePath: path,
      chromiumSandbox: false,
      timeout: LAUNCH_LIMIT_MS,
      env: { ...withoutUndefined(process.env), HOME: folder, TMPDIR: folder, ...env },
    });
    const close = async (): Promise<void> => {
      await browser.close();
      await temporary.remove();
    };
    return { browser, close, [Symbol.asyncDispose]: close };
  } catch (cause) {
    await temporary.remove();
    throw cause;
  }
}

/** The machine's fonts and one of our own, because without any font Chromium draws no text. */
const fontsOf = (folder: string): string => `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir>${join(folder, "fonts")}</dir>
  <cachedir>${join(folder, "font-cache")}</cachedir>
</fontconfig>
`;

/** The unpacked Chromium's path, and the environment in which it finds its libraries and fonts. */
async function unpack(folder: string): Promise<{ path: string; env: Record<string, string> }> {
  const program = fileURLToPath(new URL("./unpack.ts", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [program], {
    env: { ...process.env, TMPDIR: folder },
    timeout: UNPACK_LIMIT_MS,
  });
  const fonts = join(folder, "fonts.conf");
  await writeFile(fonts, fontsOf(folder));
  // Libraries that a small system lacks. Always used, so that all machines behave the same.
  const libraries = join(folder, "al2023", "lib");
  return { path: stdout.trim(), env: { LD_LIBRARY_PATH: libraries, FONTCONFIG_FILE: fonts } };
}

function withoutUndefined(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
