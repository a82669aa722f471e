// tflint and checkov on every module and example, as they are and as the examples compose them. Each finding is fixed, or
// suppressed with its reason in the same resource. Each is first shown a fault: a program that finds nothing anywhere would pass, too.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { findBuilt, findCheckov, TFLINT, whyNoCheckov, whyNotBuilt } from "./programs.ts";
import { TRIED_EXAMPLES, MODULES, whyNotFull, Workbench } from "./tools.ts";

const DIRECTORIES = [
  ...MODULES.map((name) => join("modules", name)),
  ...TRIED_EXAMPLES.map((name) => join("examples", name)),
];
const DOCKERFILE = fileURLToPath(new URL("../../image/Dockerfile", import.meta.url));
const FAULT = `
resource "aws_db_instance" "this" {
  instance_class    = "db.r7g.enormous"
  storage_encrypted = false
}
`;

describe("tflint", { skip: whyNotFull() || whyNotBuilt(TFLINT) }, () => {
  let bench: Workbench;
  before(async () => {
    bench = await Workbench.open();
  });
  after(() => bench.close());

  const lint = (directory: string) =>
    bench.runOther(
      findBuilt(TFLINT) ?? "",
      directory,
      `--config=${join(bench.folder, ".tflint.hcl")}`,
      "--format=compact",
    );

  it("finds a fault", async () => {
    mkdirSync(join(bench.folder, "fault"));
    writeFileSync(join(bench.folder, "fault/main.tf"), FAULT);
    const { code, output } = await lint("fault");
    assert.equal(code, 2, output);
    assert.match(output, /terraform_required_version/);
  });

  for (const directory of DIRECTORIES)
    it(directory, async () => {
      // Modules that are called are found where Terraform has written them down.
      if (directory.startsWith("examples")) {
        const got = await bench.run(directory, "get", "-no-color");
        assert.equal(got.code, 0, got.output);
      }
      const { code, output } = await lint(directory);
      assert.equal(code, 0, output);
    });
});

interface Finding {
  readonly check_id: string;
  readonly check_name: string;
  readonly resource: string;
  readonly file_path: string;
  readonly check_result: { readonly suppress_comment?: string };
}

interface Report {
  readonly results: {
    readonly failed_checks: readonly Finding[];
    readonly skipped_checks: readonly Finding[];
    readonly parsing_errors: readonly string[];
  };
  readonly summary: { readonly passed: number; readonly resource_count: number };
}

const REASON_CHARACTERS = 20;

describe("checkov", { skip: whyNotFull() || whyNoCheckov() }, () => {
  let bench: Workbench;
  before(async () => {
    bench = await Workbench.open();
  });
  after(() => bench.close());

  const scan = async (framework: string, ...where: readonly string[]): Promise<Report> => {
    const args = ["--framework", framework, "--output", "json", "--compact", "--skip-download", ...where];
    const { output, text } = await bench.runOther(findCheckov() ?? "", ".", ...args);
    assert.match(text, /^\{/, output);
    return JSON.parse(text) as Report;
  };
  const judge = ({ results }: Report): void => {
    assert.deepEqual(results.parsing_errors, []);
    assert.deepEqual(
      results.failed_checks.map(
        (one) => `${one.check_id} ${one.file_path} ${one.resource}: ${one.check_name}`,
      ),
      [],
    );
    for (const { check_id, resource, check_result } of results.skipped_checks)
      assert.ok(
        (check_result.suppress_comment ?? "").length >= REASON_CHARACTERS,
        `${check_id} of ${resource} is suppressed without a reason`,
      );
  };

  it("finds a fault", async () => {
    mkdirSync(join(bench.folder, "fault"));
    writeFileSync(join(bench.folder, "fault/main.tf"), FAULT);
    const { results } = await scan("terraform", "--directory", "fault");
    assert.ok(results.failed_checks.some(({ check_id }) => check_id === "CKV_AWS_16"));
  });

  for (const [folder, checks] of [
    ["modules", 200],
    ["examples", 500],
  ] as const)
    it(`finds none in ${folder}`, async () => {
      const report = await scan("terraform", "--directory", folder);
      judge(report);
      assert.ok(report.summary.passed > checks, JSON.stringify(report.summary));
    });

  it("finds none in the image", async () => {
    const report = await scan("dockerfile", "--file", DOCKERFILE);
    judge(report);
    assert.ok(report.summary.passed > 0);
  });
});
