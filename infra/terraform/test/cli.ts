// `make infra-rendered`: applies the example of three regions on the stand-in for AWS and writes down what it renders, from which the
// system is started on one machine. Exit code 1 when there is no Terraform or no stand-in, or the example cannot be applied.
import { writeFileSync } from "node:fs";
import { SNAPSHOT, toText } from "./rendered.ts";
import { layOverrides, StandIn, whyNoStandIn } from "./stand-in.ts";
import { apply, errorsOf, renderApplied, setVariables, THREE } from "./three-regions.ts";
import { whyNoTerraform, Workbench } from "./tools.ts";

async function main(): Promise<number> {
  const missing = whyNoTerraform() || whyNoStandIn();
  if (missing !== false) {
    console.error(missing);
    return 1;
  }
  const bench = await Workbench.open();
  try {
    const aws = await StandIn.start();
    try {
      bench.addEnv(aws.env);
      const why = await bench.init(THREE);
      if (why !== null) throw new Error(why);
      layOverrides(bench.folder);
      setVariables(bench, THREE, { zone_id: await aws.makeZone("example.com") });
      const applied = await apply(bench);
      if (applied.code !== 0) throw new Error(errorsOf(applied));
      writeFileSync(SNAPSHOT, toText(await renderApplied(bench)));
      console.log(`written: ${SNAPSHOT}`);
      return 0;
    } finally {
      await aws.stop();
    }
  } finally {
    await bench.close();
  }
}

process.exitCode = await main();
