// Writes the vectors of this folder anew, after the protocol has changed: node
// sdk/conformance/vectors/write.ts
import { writeFileSync } from "node:fs";
import { jsonLines } from "@highwater/lab-tools/json";
import { VECTORS } from "./build.ts";

/** Each case has a line of its own. */
const DEPTH = 1;

for (const [name, build] of Object.entries(VECTORS))
  writeFileSync(new URL(name, import.meta.url), jsonLines(build(), DEPTH));
