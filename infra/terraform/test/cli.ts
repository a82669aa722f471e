// `make infra-rendered`: applies the example of three regions on the stand-in for AWS and writes down what it renders, from which the
// system is started on one machine. Exit code 1 when there is no Terraform or no stand-in, or the example cannot be applied.
import { writeFileSync } from "node:fs";
import { errorsOf, Examples, THREE } from "./examples.ts";
import { SNAPSHOT, toText } from "./rendered.ts";
import { layOverrides, whyNoStandIn } from "./stand-in.ts";
import { whyNoTerraform } from "./tools.ts";

async function main(): Promise<number> {
  const missing = whyNoTerraform() || whyNoStandIn();
  if (missing !== false) {
    console.error(missing);
    return 1;
  }
  await using examples = await Examples.open();
  const { bench } = examples;
  const why = await bench.init(THREE);
  if (why !== null) throw new Error(why);
  layOverrides(bench.folder);
  await examples.setVariables(THREE);
  const applied = await examples.apply(THREE);
  if (applied.code !== 0) throw new Error(errorsOf(applied));
  writeFileSync(SNAPSHOT, toText(await examples.render(THREE)));
  console.log(`written: ${SNAPSHOT}`);
  return 0;
}

process.exitCode = await main();
