// The examples as they are planned and applied on the stand-in for AWS, and what the one of three regions then renders.
import { join } from "node:path";
import { type Rendered, renderState } from "./rendered.ts";
import { StandIn } from "./stand-in.ts";
import { type Ran, Workbench } from "./tools.ts";

export const THREE = "examples/three-regions";
const DIGEST = `sha256:${"0".repeat(64)}`;
const IMAGES = { service: `highwater@${DIGEST}`, envoy: `envoy@${DIGEST}` };

/** What has to be said, but for the zone. */
const LEAST = { domain_name: "db.example.com", images: IMAGES };

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

const PLAN = "case.plan";
/** How a plan ends. */
export const NOTHING_TO_DO = 0;
export const SOMETHING_TO_DO = 2;

/** A copy of the examples, a stand-in with the zone that they want, and Terraform between them. */
export class Examples implements AsyncDisposable {
  readonly bench: Workbench;
  readonly aws: StandIn;
  readonly #zone: string;
  readonly #open: AsyncDisposableStack;

  private constructor(parts: Pick<Examples, "bench" | "aws">, zone: string, open: AsyncDisposableStack) {
    this.bench = parts.bench;
    this.aws = parts.aws;
    this.#zone = zone;
    this.#open = open;
  }

  static async open(): Promise<Examples> {
    await using open = new AsyncDisposableStack();
    const bench = open.adopt(await Workbench.open(), (it) => it.close());
    const aws = open.adopt(await StandIn.start(), (it) => it.stop());
    bench.addEnv(aws.env);
    const zone = await aws.makeZone("example.com");
    return new Examples({ bench, aws }, zone, open.move());
  }

  /** Everything that can be asked for, and `others` instead. */
  setVariables(directory: string, others: object = {}): Promise<void> {
    return this.bench.writeVariables(directory, { ...VARIABLES, zone_id: this.#zone, ...others });
  }

  setLeastVariables(directory: string): Promise<void> {
    return this.bench.writeVariables(directory, { ...LEAST, zone_id: this.#zone });
  }

  plan(directory: string): Promise<Ran> {
    return this.bench.run(
      directory,
      "plan",
      "-no-color",
      "-input=false",
      "-detailed-exitcode",
      `-out=${PLAN}`,
    );
  }

  showPlan(directory: string): Promise<Ran> {
    return this.bench.run(directory, "show", "-json", PLAN);
  }

  /** What there is to do now. */
  apply(directory: string): Promise<Ran> {
    return this.bench.run(directory, "apply", "-no-color", "-input=false", "-auto-approve");
  }

  applyPlan(directory: string): Promise<Ran> {
    return this.bench.run(directory, "apply", "-no-color", "-input=false", PLAN);
  }

  /** Of what was applied. */
  async render(directory: string): Promise<Rendered> {
    return renderState((await this.bench.run(directory, "show", "-json")).text);
  }

  stateFile(directory: string): string {
    return join(this.bench.folder, directory, "terraform.tfstate");
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#open.disposeAsync();
  }
}

export function errorsOf({ output }: Ran): string {
  return output.slice(Math.max(0, output.indexOf("\nError: "))).slice(0, 8_000);
}
