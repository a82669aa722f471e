// Where k6 is, and why it is not.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const VERSION = "v1.8.1";
export const K6_PACKAGE = `go.k6.io/k6@${VERSION}`;
export const K6_FOLDER = fileURLToPath(new URL(`../../.tools/k6-${VERSION}`, import.meta.url));
export const K6 = `${K6_FOLDER}/k6`;

/** Null where Go can build it. */
export function whyNoGo(): string | null {
  try {
    execFileSync("go", ["version"], { stdio: "pipe" });
    return null;
  } catch {
    return "there is no Go on this machine (the command go); https://go.dev/doc/install, or k6 itself in the PATH";
  }
}

/** The one that was built here, or the machine's own. */
export function findK6(): string | null {
  if (existsSync(K6)) return K6;
  try {
    execFileSync("k6", ["version"], { stdio: "pipe" });
    return "k6";
  } catch {
    return null;
  }
}

/** Null where k6 is. */
export function whyNoK6(): string | null {
  return findK6() === null ? `k6 is missing: ${whyNoGo() ?? "make load-smoke builds it"}` : null;
}
