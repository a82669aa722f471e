// Builds k6 into the project's own `.tools`, with the machine's Go: one program, nothing installed
// outside. Exit code 0 when it is there.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { whyNoGo, K6, K6_FOLDER, K6_PACKAGE } from "./find.ts";

const BUILD_LIMIT_MS = 30 * 60_000;

if (existsSync(K6)) process.exit(0);
const why = whyNoGo();
if (why !== null) {
  console.error(`k6 cannot be built: ${why}`);
  process.exit(1);
}
console.error(`building ${K6_PACKAGE}, once; that takes some minutes`);
mkdirSync(K6_FOLDER, { recursive: true });
execFileSync("go", ["install", K6_PACKAGE], {
  env: { ...process.env, GOBIN: K6_FOLDER, GOFLAGS: "" },
  stdio: "inherit",
  timeout: BUILD_LIMIT_MS,
});
