// Finds Prometheus and promtool: a folder in the environment, the project's own (`make
// .tools/prometheus` fills it), or the machine's PATH. `install.ts` fetches them.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder with both programs, the only one that is then tried. */
export const FOLDER_VARIABLE = "HIGHWATER_PROMETHEUS_FOLDER";
const TOOLS = fileURLToPath(new URL("../../../../.tools", import.meta.url));
/** Where the distribution's package is unpacked. */
export const UNPACKED = join(TOOLS, "prometheus");
const PROGRAMS = ["prometheus", "promtool"] as const;

export type Programs = Readonly<Record<(typeof PROGRAMS)[number], string>>;

export interface Machine {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isProgram: (path: string) => boolean;
}

const HERE: Machine = { env: process.env, isProgram };

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Both from one folder, so that their versions match. */
export function findPrograms({ env, isProgram }: Machine = HERE): Programs | { readonly why: string } {
  const named = env[FOLDER_VARIABLE] ?? "";
  const inPath = (env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  const folders = named === "" ? [join(UNPACKED, "usr", "bin"), ...inPath] : [named];
  for (const folder of folders) {
    const programs = { prometheus: join(folder, "prometheus"), promtool: join(folder, "promtool") };
    if (PROGRAMS.every((name) => isProgram(programs[name]))) return programs;
  }
  return {
    why:
      named === ""
        ? `no Prometheus: make .tools/prometheus unpacks the distribution's package, and neither it nor PATH has both ${PROGRAMS.join(" and ")}; ${FOLDER_VARIABLE} names a folder`
        : `no Prometheus: ${FOLDER_VARIABLE} is ${named}, which lacks ${PROGRAMS.join(" or ")}`,
  };
}

/** Why this machine has none, for tests to skip; false when it has them. */
export function whyNoPrometheus(machine?: Machine): string | false {
  const found = findPrograms(machine);
  return "why" in found && found.why;
}

/** Errors: `whyNoPrometheus`. */
export function requirePrograms(): Programs {
  const found = findPrograms();
  if ("why" in found) throw new Error(found.why);
  return found;
}
