// `make fuzz`: runs all targets, which share the time. Each finding is printed with the command
// that reproduces it. Arguments: SECONDS=N (default 60), SEED=N, TARGET=NAME,…, INPUT=BASE64 (one
// input, once). Exit codes: 0 without findings, 1 with findings.
import { readOptions } from "@highwater/lab-tools/process";
import { describeFailure, runTarget } from "./src/runner.ts";
import { RealServices } from "./src/services.ts";
import { allTargets, targetOf } from "./src/targets/index.ts";

const SECONDS_DEFAULT = 60;

const { positionals } = readOptions(import.meta.filename, { options: {}, allowPositionals: true });
const given = new Map(
  positionals.map((text): [string, string] => {
    const at = text.indexOf("=");
    return [text.slice(0, at), text.slice(at + 1)];
  }),
);
const seed = Number(given.get("SEED") ?? 0) || Math.floor(Math.random() * 2 ** 31);
const names = (given.get("TARGET") ?? "").split(",").filter((name) => name !== "");
const targets =
  names.length === 0 ? await allTargets() : await Promise.all(names.map((name) => targetOf(name)));
const seconds = Number(given.get("SECONDS") ?? 0) || SECONDS_DEFAULT;
const text = given.get("INPUT");
const input = text === undefined ? null : Buffer.from(text, "base64");

const services = targets.some(({ target }) => target.needsServices === true)
  ? await RealServices.start()
  : null;
let found = 0;
try {
  for (const listed of targets) {
    const { target } = listed;
    const report = await runTarget(listed, {
      seed,
      input,
      seconds: seconds / targets.length,
      runs: Number.POSITIVE_INFINITY,
      services: services?.urls ?? null,
    });
    const { runs, kept, covered } = report;
    process.stdout.write(`${JSON.stringify({ target: target.name, seed, runs, kept, covered })}\n`);
    if (report.failure === null) continue;
    found++;
    process.stdout.write(`${describeFailure(target, seed, report)}\n`);
  }
  for (const fault of (await services?.faults()) ?? []) {
    found++;
    process.stdout.write(`FOUND in a service's log: ${fault}\n`);
  }
} finally {
  await services?.close();
}
process.exit(found > 0 ? 1 : 0);
