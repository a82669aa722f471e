// Builds the site into dist: prepares the pages, runs Astro, and checks the result.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { checkSite, type Findings } from "./check/links.ts";
import { prepare, SITE } from "./prepare/prepare.ts";

export const DIST = join(SITE, "dist");
const ASTRO = join(SITE, "node_modules/.bin/astro");
const OUTPUT_BYTES_MAX = 16_777_216;

/** Errors: Astro is not installed, or fails. */
export async function buildSite(): Promise<Findings> {
  if (!existsSync(ASTRO)) throw new Error("Astro is not installed; make site installs it");
  prepare();
  await promisify(execFile)(process.execPath, [ASTRO, "build"], {
    cwd: SITE,
    maxBuffer: OUTPUT_BYTES_MAX,
    env: { ...process.env, ASTRO_TELEMETRY_DISABLED: "1" },
  });
  return checkSite(DIST);
}
