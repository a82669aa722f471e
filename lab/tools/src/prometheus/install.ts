// Unpacks the distribution's Prometheus into the project's `.tools`. Without apt it prints that,
// and tests skip. Exit code 0 in both cases.
import { existsSync } from "node:fs";
import { unpackDebian } from "@highwater/lab-tools/process";
import { findPrograms, UNPACKED } from "./find.ts";

if (!existsSync(UNPACKED)) {
  try {
    await unpackDebian(["prometheus"], UNPACKED);
  } catch (cause) {
    const others = findPrograms();
    const next = "why" in others ? "tests that need it will be skipped" : `taking ${others.prometheus}`;
    const why = cause instanceof Error ? cause.message : String(cause);
    console.error(`Prometheus could not be unpacked (${why}); ${next}.`);
  }
}
