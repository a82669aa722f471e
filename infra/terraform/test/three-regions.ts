// The example of three regions as the tests apply it on the stand-in for AWS, and what is then rendered.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Rendered, renderState } from "./rendered.ts";
import { type Ran, type Workbench } from "./tools.ts";

export const THREE = "examples/three-regions";
const DIGEST = `sha256:${"0".repeat(64)}`;
export const VARIABLES = {
  domain_name: "db.example.com",
  protected: false,
  wait_for_steady_state: false,
  failover_approval: {
    approvers: ["arn:aws:iam::123456789012:role/operators"],
    emails: ["operators@example.com"],
  },
  images: { service: `highwater@${DIGEST}`, envoy: `envoy@${DIGEST}`, collector: `collector@${DIGEST}` },
  notification_targets: { team: { protocol: "email", endpoint: "database-team@example.com" } },
};

export function setVariables(bench: Workbench, place: string, variables: object): void {
  writeFileSync(
    join(bench.folder, place, "case.auto.tfvars.json"),
    JSON.stringify({ ...VARIABLES, ...variables }),
  );
}

export function apply(bench: Workbench): Promise<Ran> {
  return bench.run(THREE, "apply", "-no-color", "-input=false", "-auto-approve");
}

/** Of what was applied. */
export async function renderApplied(bench: Workbench): Promise<Rendered> {
  return renderState((await bench.run(THREE, "show", "-json")).text);
}

export function errorsOf({ output }: Ran): string {
  return output.slice(Math.max(0, output.indexOf("\nError: "))).slice(0, 8_000);
}
