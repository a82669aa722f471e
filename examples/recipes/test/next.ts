// Builds the app of Next.js as its users do: with the SDK as it is published, apart from the sources.
import { execFile } from "node:child_process";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const RECIPES = fileURLToPath(new URL("..", import.meta.url));
const HOME = join(RECIPES, "next");
const MODULES = join(HOME, "node_modules");
/** Below the app's packages, and with the SDK as its own. */
const COPY = join(HOME, ".tmp");
const APP = join(COPY, "next");
const SHARED = ["orders.ts", "schema.sql"];
const FILES = ["app", "highwater.ts", "next.config.mjs", "package.json", "tsconfig.json"];

/** Of `next` with its arguments. */
export const nextCommand = (command: string, ...args: readonly string[]): [string, ...string[]] => [
  process.execPath,
  join(MODULES, "next/dist/bin/next"),
  command,
  APP,
  ...args,
];

/** Errors: what `next build` says. */
export async function buildNext(): Promise<void> {
  await rm(COPY, { recursive: true, force: true });
  for (const name of SHARED) await cp(join(RECIPES, name), join(COPY, name));
  for (const name of FILES) await cp(join(HOME, name), join(APP, name), { recursive: true });
  const build = join(RECIPES, "../../sdk/ts/scripts/build.ts");
  await run(process.execPath, [build, join(COPY, "node_modules/@highwater/sdk")]);
  const [program, ...args] = nextCommand("build");
  // Without the settings of the services: a build knows none.
  await run(program, args, { env: { ...process.env, NEXT_TELEMETRY_DISABLED: "1" } });
}
