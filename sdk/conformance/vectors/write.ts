// Writes the vectors of this folder anew, after the protocol has changed: node sdk/conformance/vectors/write.ts
import { writeFileSync } from "node:fs";
import { VECTORS } from "./build.ts";

for (const [name, build] of Object.entries(VECTORS))
  writeFileSync(new URL(name, import.meta.url), `${JSON.stringify(build(), null, 1)}\n`);
