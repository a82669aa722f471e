// Unpacks the distribution's newest PostgreSQL 15 into the project's `.tools`. If the distribution
// has none, it prints that; an installed PostgreSQL 15 then counts. Exit code 0 in both cases.
import { execFileSync } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { unpackDebian } from "@highwater/lab-tools/process";
import { SOURCES, UNPACKED_15 } from "./installations.ts";

if (!existsSync(UNPACKED_15)) {
  try {
    await unpackDebian(["postgresql-15", "postgresql-client-15"], UNPACKED_15);
    // Its libraries are the machine's: without them the installed version counts.
    execFileSync(join(SOURCES["15"]?.binDirs[0] ?? "", "postgres"), ["-V"], { stdio: "pipe" });
  } catch (cause) {
    rmSync(UNPACKED_15, { recursive: true, force: true });
    const why = cause instanceof Error ? cause.message : String(cause);
    console.error(`The distribution's PostgreSQL 15 could not be unpacked (${why.trim()}).`);
  }
}
