// The examples as the tests plan and apply them on the stand-in for AWS, and what the one of three regions then renders.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Rendered, renderState } from "./rendered.ts";
import { type Ran, type Workbench } from "./tools.ts";

export const THREE = "examples/three-regions";
const DIGEST = `sha256:${"0".repeat(64)}`;
const IMAGES = { service: `highwater@${DIGEST}`, envoy: `envoy@${DIGEST}` };

/** What has to be said, but for the zone. */
export const LEAST = { domain_name: "db.example.com", images: IMAGES };

/** Everything that adds modules, and a system that is thrown away. */
const VARIABLES = {
  ...LEAST,
  protected: false,
  wait_for_steady_state: false,
  failover_approval: {
    approvers: ["arn:aws:iam::123456789012:role/operators"],
    emails: ["operators@example.com"],
  },
  images: { ...IMAGES, collector: `collector@${DIGEST}` },
  notification_targets: { team: { protocol: "email", endpoint: "database-team@example.com" } },
};

/** A plan that was written down: it is what is then applied. */
export const PLAN = "case.plan";
/** How a plan ends. */
export const NOTHING_TO_DO = 0;
export const SOMETHING_TO_DO = 2;

export function setVariables(bench: Workbench, place: string, variables: object): void {
  writeFileSync(
    join(bench.folder, place, "case.auto.tfvars.json"),
    JSON.stringify({ ...VARIABLES, ...variables }),
  );
}

export function plan(bench: Workbench, place: string): Promise<Ran> {
  return bench.run(place, "plan", "-no-color", "-input=false", "-detailed-exitcode", `-out=${PLAN}`);
}

/** What was planned, or what there is to do now. */
export function apply(bench: Workbench, planned: readonly string[] = ["-auto-approve"]): Promise<Ran> {
  return bench.run(THREE, "apply", "-no-color", "-input=false", ...planned);
}

/** Of what was applied. */
export async function renderApplied(bench: Workbench): Promise<Rendered> {
  return renderState((await bench.run(THREE, "show", "-json")).text);
}

export function errorsOf({ output }: Ran): string {
  return output.slice(Math.max(0, output.indexOf("\nError: "))).slice(0, 8_000);
}
