// Programs by which a platform team judges Terraform: what they are, where they are, and why one is not there. Looks only;
// install.ts builds those that are built, and make brings checkov.
import { fileURLToPath } from "node:url";
import { type GoProgram } from "@highwater/lab-tools/process/go";
import { onPath } from "./tools.ts";

const inTools = (path: string): string => fileURLToPath(new URL(`../../../.tools/${path}`, import.meta.url));

export interface Built extends GoProgram {
  readonly name: string;
  /** Its release is in the path: another version is another program. */
  readonly path: string;
  /** What brings it. */
  readonly by: string;
}

const TFLINT_VERSION = "v0.64.0";
const TOFU_VERSION = "v1.12.6";

/** With the rules that are part of it. Those for AWS are a program of their own, which the module proxy does not give out. */
export const TFLINT: Built = {
  name: "tflint",
  module: "github.com/terraform-linters/tflint",
  version: TFLINT_VERSION,
  sum: "h1:v0KwryBjBeo79uqFrYQOllZk3l/nQvH/e4SZW45jhA8=",
  path: inTools(`tflint-${TFLINT_VERSION}/tflint`),
  by: "make infra-tools",
};

export const TOFU: Built = {
  name: "tofu",
  module: "github.com/opentofu/opentofu",
  version: TOFU_VERSION,
  sum: "h1:0VT4P8pMmGcCUnQ9JDrJ+Qg2d35Vzm4FFd/9+H7oF98=",
  folder: "./cmd/tofu",
  // Without it, it calls itself older than its release, and modules that need that refuse it.
  values: { "github.com/opentofu/opentofu/version.dev": "no" },
  path: inTools(`tofu-${TOFU_VERSION}/tofu`),
  by: "make tofu",
};

const CHECKOV = inTools("checkov/bin/checkov");

/** The program that was built here, or the machine's own. */
export function findBuilt(program: Built): string | null {
  return onPath(program.path) ?? onPath(program.name);
}

export function whyNotBuilt(...programs: readonly Built[]): string | false {
  const missing = programs.find((program) => findBuilt(program) === null);
  if (missing === undefined) return false;
  return `no ${missing.name}: ${missing.by} builds it (needs Go), and it is not on PATH either`;
}

export function findCheckov(): string | null {
  return onPath(CHECKOV) ?? onPath("checkov");
}

export function whyNoCheckov(): string | false {
  if (findCheckov() !== null) return false;
  return "no checkov: make .tools/checkov/.installed brings it from PyPI, and it is not on PATH either";
}
