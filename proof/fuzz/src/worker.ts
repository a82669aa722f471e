// Runs a target's loop in its own thread, so that uncaught errors and endless loops are seen from
// outside.
import { parentPort, workerData } from "node:worker_threads";
import { fuzz } from "./loop.ts";
import { type Job, noteInput, type Report } from "./runner.ts";
import { targetOf } from "./targets/index.ts";

const { target: name, file, seed, runs, seconds, input, services, folder, shared } = workerData as Job;
const { target } = await targetOf(name, file);
const fuzzed = await target.open({ services, folder });
const seeds = input === null ? target.seeds : [input];
const result = await fuzz({ ...target, seeds }, fuzzed, {
  seed,
  seconds,
  runs: input === null ? runs : 1,
  onInput: (bytes) => {
    noteInput(shared, bytes);
  },
});
await fuzzed.close?.();
const { failure } = result;
const report: Report = {
  ...result,
  failure: failure && { ...failure, input: new Uint8Array(failure.input) },
};
parentPort?.postMessage(report);
