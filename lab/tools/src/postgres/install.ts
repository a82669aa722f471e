// Unpacks the distribution's PgBouncer into the project's `.tools`. Without apt it prints that, and
// benchmarks leave out its rows. Exit code 0 in both cases.
import { existsSync } from "node:fs";
import { unpackDebian } from "@highwater/lab-tools/process";
import { PGBOUNCER_UNPACKED } from "./index.ts";

if (!existsSync(PGBOUNCER_UNPACKED)) {
  try {
    await unpackDebian(["pgbouncer", "libc-ares2", "libevent-2.1-7"], PGBOUNCER_UNPACKED);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    console.error(`PgBouncer could not be unpacked (${why}); benchmarks leave out its rows.`);
  }
}
