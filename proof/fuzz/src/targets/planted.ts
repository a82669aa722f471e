// Targets with one known bug each, for tests of the loop itself. They run only by name.
import { pure, type Target } from "../target.ts";

/**
 * Reachable only by keeping each input that gets one step further: by chance alone it takes all
 * inputs of three bytes.
 */
function takeSteps(input: Buffer): void {
  if (input[0] !== 0x7a) return;
  if (input[1] !== 0x91) return;
  if (input[2] === 0x33) throw new Error("found behind three steps");
}

const plant = (name: string, run: (input: Buffer) => void | Promise<void>): Target =>
  pure({ name, about: "planted", seeds: ["abcd"], sliceRuns: 0, run });

export const targets: readonly Target[] = [
  plant("planted-coverage", takeSteps),
  plant("planted-uncaught", async (input) => {
    if (input.length > 6)
      setImmediate(() => {
        throw new Error("thrown and never caught");
      });
  }),
  plant("planted-rejection", async (input) => {
    if (input.length > 6) void Promise.reject(new Error("rejected and never caught"));
  }),
];
