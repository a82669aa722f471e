// Unpacks the distribution's libfaketime into the project's `.tools`. Without apt it prints that,
// and faults that set clocks are left out. Exit code 0 in both cases.
import { existsSync } from "node:fs";
import { unpackDebian } from "@highwater/lab-tools/process";
import { FAKETIME_UNPACKED, findFaketime } from "./clocks.ts";

if (!existsSync(FAKETIME_UNPACKED)) {
  try {
    await unpackDebian(["libfaketime"], FAKETIME_UNPACKED);
  } catch (cause) {
    const next = findFaketime() ?? "clocks cannot be set, and faults that need it are left out";
    const why = cause instanceof Error ? cause.message : String(cause);
    console.error(`libfaketime could not be unpacked (${why}); ${next}.`);
  }
}
