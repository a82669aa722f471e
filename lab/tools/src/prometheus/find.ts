// Where Prometheus and promtool are: a folder that is named, the project's own (`make
// .tools/prometheus` fills it), or the machine's PATH. Looks only; `install.ts` fetches.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder that holds both programs, which is then the only one that is tried. */
export const FOLDER_VARIABLE = "HIGHWATER_PROMETHEUS_FOLDER";
const TOOLS = fileURLToPath(new URL("../../../../.tools", import.meta.url));
/** What the package of the distribution unpacks to. */
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

/** Both from one folder, so that they are of one version. */
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

/** Why there is none on this machine, for tests that then skip; false when there is one. */
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
