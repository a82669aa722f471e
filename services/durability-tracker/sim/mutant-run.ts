// A process of its own for one mutant, which mutate.ts has made: plays runs of the seed from FROM on until one fails, and says
// which. Exits with 0 if it found the bug, with 3 if it did not.
import { ANYTHING, draw, playScript, seedOf, WITH_WIRE } from "./run.ts";

const { SEED = "1", FROM = "0", RUNS = "10000", WIRES = "" } = process.env;
const bounds = WIRES === "" ? ANYTHING : WITH_WIRE;

let found: { readonly runs: number; readonly message: string } | null = null;
for (let n = Number(FROM); n < Number(RUNS) && found === null; n++) {
  const { failure } = await playScript(draw(seedOf(Number(SEED), n), bounds));
  if (failure !== null) found = { runs: n + 1, message: failure.message };
}
console.log(JSON.stringify(found ?? { runs: null }));
process.exitCode = found === null ? 3 : 0;
