// Builds the programs that are named (tflint, OpenTofu) into `.tools`, unless they are there. Where one cannot be
// built it says why, and the tests that need it are skipped: exit code 0 in both cases.
import { buildGoProgram } from "@highwater/lab-tools/process/go";
import { type Built, TFLINT, TOFU } from "./programs.ts";
import { isProgram } from "./tools.ts";

const ALL: readonly Built[] = [TFLINT, TOFU];

for (const name of process.argv.slice(2)) {
  const program = ALL.find((one) => one.name === name);
  if (program === undefined)
    throw new Error(`there is no ${name}; there are ${ALL.map((one) => one.name).join(", ")}`);
  if (isProgram(program.path)) continue;
  console.error(`building ${program.name} ${program.version}, once; that takes some minutes`);
  try {
    await buildGoProgram(program, program.path);
  } catch (cause) {
    console.error(cause instanceof Error ? cause.message : cause);
    console.error(
      `There is no ${program.name} ${program.version}: tests that need it are skipped, unless PATH has one.`,
    );
  }
}
