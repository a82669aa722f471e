// Builds Jaeger from its source in the Go module proxy into `.tools`: we found no package for Linux
// distributions, npm or PyPI. Exit codes: 0 when it is built or was there already; 1 when it cannot
// be built, with the reason.
import { buildGoProgram } from "@highwater/lab-tools/process/go";
import { BUILT, isProgram } from "./find.ts";

const JAEGER = {
  module: "github.com/jaegertracing/jaeger",
  version: "v1.76.0",
  sum: "h1:sWCOOF1dr+NL0PLil7mFo3BqqQL8k4WiM7aguFbc14g=",
  folder: "./cmd/all-in-one",
};

if (!isProgram(BUILT)) {
  console.log(`building Jaeger ${JAEGER.version}; this takes some five minutes of a core`);
  try {
    await buildGoProgram(JAEGER, BUILT);
  } catch (cause) {
    console.error(cause instanceof Error ? cause.message : cause);
    process.exitCode = 1;
  }
}
