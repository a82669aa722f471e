// Formatting of everything, validity of every module, and each module's own rules (`tests/rules.tftest.hcl`, with a mocked
// provider). A rule that needs AWS's provider starts it, which takes minutes for all: `make infra-test`.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { MODULES, ROOT, whyNoTerraform, whyNotFull, Workbench } from "./tools.ts";

/** They have no resource, and so need no provider. */
const PURE: readonly string[] = ["collector", "topology"];

describe("terraform modules", { skip: whyNoTerraform() }, () => {
  let bench: Workbench;
  before(async () => {
    bench = await Workbench.open();
  });
  after(() => bench.close());

  it("are formatted", async () => {
    const { code, output } = await bench.run(".", "fmt", "-check", "-recursive", "-diff");
    assert.equal(code, 0, output);
  });

  it("all have rules of their own and tests of them", () => {
    for (const module of MODULES)
      for (const file of ["main.tf", "variables.tf", "outputs.tf", "versions.tf", "tests/rules.tftest.hcl"])
        assert.ok(existsSync(join(ROOT, "modules", module, file)), `${module} lacks ${file}`);
  });

  for (const module of PURE) it(`${module}: its rules`, (context) => testModule(bench, module, context));

  for (const module of MODULES.filter((name) => !PURE.includes(name)))
    it(`${module}: is valid, and its rules`, { skip: whyNotFull() }, (context) =>
      testModule(bench, module, context),
    );
});

async function testModule(
  bench: Workbench,
  module: string,
  context: { skip: (why: string) => void },
): Promise<void> {
  const directory = join("modules", module);
  const why = await bench.init(directory);
  if (why !== null) {
    context.skip(why);
    return;
  }
  const tested = await bench.run(directory, "test", "-no-color");
  assert.equal(tested.code, 0, tested.output);
  const passed = /(\d+) passed, 0 failed/.exec(tested.output);
  assert.ok(Number(passed?.[1]) > 0, tested.output);
}
