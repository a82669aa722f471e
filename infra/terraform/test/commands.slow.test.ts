// Every command of the AWS CLI that the documentation gives, and that run-task.sh carries out, is one that AWS's own description of
// its services knows: operation, options, and what is required. It does not show what AWS makes of their values.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { ROOT } from "./tools.ts";

const PYTHON = fileURLToPath(new URL("../../../.tools/infra/bin/python", import.meta.url));
const HELPER = fileURLToPath(new URL("commands.py", import.meta.url));
const PAGE = join(ROOT, "../../docs/deploy-aws.md");
const SCRIPT = join(ROOT, "run-task.sh");
const whyNot = existsSync(PYTHON)
  ? false
  : "no Python with AWS's SDK: make .tools/infra/.installed brings it";

interface Judged {
  readonly commands: number;
  readonly faults: readonly string[];
}

async function judge(...files: readonly string[]): Promise<Judged> {
  const { stdout } = await promisify(execFile)(PYTHON, [HELPER, ...files]);
  return JSON.parse(stdout) as Judged;
}

describe("the documentation's commands", () => {
  it("are shell that bash can read, and the script is", async () => {
    const page = readFileSync(PAGE, "utf8");
    const blocks = [...page.matchAll(/^( *)```sh\n([^]*?)^ *```$/gm)].map(([, indent = "", text = ""]) =>
      text.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
    );
    assert.ok(blocks.length > 20, `only ${String(blocks.length)} are found`);
    for (const block of blocks) await promisify(execFile)("bash", ["-nc", block]);
    await promisify(execFile)("bash", ["-n", SCRIPT]);
    await assert.rejects(promisify(execFile)("bash", ["-nc", 'for a in b; do echo "$(c)'], {}));
  });
});

describe("commands of the AWS CLI", { skip: whyNot }, () => {
  it("are found, and their faults are reported", async () => {
    const folder = await mkdtemp(join(tmpdir(), "highwater-commands-"));
    try {
      const file = join(folder, "page.md");
      const wrong = [
        "aws ecs run-tusk --cluster a",
        'x="$(aws ecs run-task --cluster a --family b)"',
        "aws rds wait db-instance-gone --db-instance-identifier a",
        "in prose, `aws rds promote-replica …`, and",
        "aws nothing describe-it | aws ec2 describe-subnets --subnet-ids a \\\n  --query 'Subnets[?X==`1`]' --no-delete",
      ];
      await writeFile(file, wrong.join("\n"));
      const { commands, faults } = await judge(file);
      assert.equal(commands, 6);
      assert.deepEqual(faults, [
        "ec2 describe-subnets: no option --no-delete",
        "ecs run-task: --task-definition is required",
        "ecs run-task: no option --family",
        "ecs run-tusk: ecs has no such command",
        "nothing describe-it: there is no service nothing",
        "rds promote-replica: rds has no such command",
        "rds wait db-instance-gone: rds has no such command",
      ]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("are those that AWS knows", async () => {
    const { commands, faults } = await judge(PAGE, SCRIPT);
    assert.ok(commands > 40, `only ${String(commands)} are found`);
    assert.deepEqual(faults, []);
  });
});
