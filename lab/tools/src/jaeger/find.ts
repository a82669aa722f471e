// Finds Jaeger: a path in the environment, the project's own (`make jaeger` builds it), or the
// machine's PATH.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The path of another Jaeger 1.x all-in-one, the only one that is then tried. */
export const JAEGER_VARIABLE = "HIGHWATER_JAEGER";
export const BUILT = fileURLToPath(new URL("../../../../.tools/jaeger/all-in-one", import.meta.url));
const NAME = "jaeger-all-in-one";

export interface Machine {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isProgram: (path: string) => boolean;
}

const HERE: Machine = { env: process.env, isProgram };

export function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export function findJaeger({ env, isProgram: isThere }: Machine = HERE): string | { readonly why: string } {
  const named = env[JAEGER_VARIABLE] ?? "";
  const inPath = (env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  const candidates = named === "" ? [BUILT, ...inPath.map((folder) => join(folder, NAME))] : [named];
  const found = candidates.find(isThere);
  if (found !== undefined) return found;
  return {
    why:
      named === ""
        ? `no Jaeger: make jaeger builds one (Go 1.24.6 or newer, some five minutes of a core), and PATH has no ${NAME}; ${JAEGER_VARIABLE} names one`
        : `no Jaeger: ${JAEGER_VARIABLE} names no program`,
  };
}

/** Why this machine has none, for tests to skip; false when it has one. */
export function whyNoJaeger(machine?: Machine): string | false {
  const found = findJaeger(machine);
  return typeof found === "object" && found.why;
}
