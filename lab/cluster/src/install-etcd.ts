// Builds a maintained etcd from its source in the Go module proxy into the project's `.tools`: npm
// and PyPI have only an old one. `../etcd` pins it. Exit code 1 when it cannot be built, with the
// reason; tests then run the old one.
import { fileURLToPath } from "node:url";
import { buildPinnedProgram } from "@highwater/lab-tools/process/go";
import { builtEtcd } from "./etcd.ts";

const PINNED = fileURLToPath(new URL("../etcd", import.meta.url));

console.error("building etcd, once; that takes some minutes");
try {
  await buildPinnedProgram("go.etcd.io/etcd/server/v3", PINNED, builtEtcd);
} catch (cause) {
  console.error(cause instanceof Error ? cause.message : cause);
  console.error("There is no new etcd: tests run the one of PyPI, 3.5.1.");
  process.exitCode = 1;
}
