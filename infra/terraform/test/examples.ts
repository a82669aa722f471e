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

  private constructor(bench: Workbench, aws: StandIn, zone: string) {
    this.bench = bench;
    this.aws = aws;
    this.#zone = zone;
  }

  static async open(): Promise<Examples> {
    const bench = await Workbench.open();
    try {
      const aws = await StandIn.start();
      bench.addEnv(aws.env);
      return new Examples(bench, aws, await aws.makeZone("example.com"));
    } catch (cause) {
      await bench.close();
      throw cause;
    }
  }

  /** Everything that can be asked for, and `others` instead. */
  setVariables(place: string, others: object = {}): Promise<void> {
    return this.bench.writeVariables(place, { ...VARIABLES, zone_id: this.#zone, ...others });
  }

  setLeastVariables(place: string): Promise<void> {
    return this.bench.writeVariables(place, { ...LEAST, zone_id: this.#zone });
  }

  plan(place: string): Promise<Ran> {
    return this.bench.run(place, "plan", "-no-color", "-input=false", "-detailed-exitcode", `-out=${PLAN}`);
  }

  showPlan(place: string): Promise<Ran> {
    return this.bench.run(place, "show", "-json", PLAN);
  }

  /** What there is to do now. */
  apply(place: string): Promise<Ran> {
    return this.bench.run(place, "apply", "-no-color", "-input=false", "-auto-approve");
  }

  applyPlan(place: string): Promise<Ran> {
    return this.bench.run(place, "apply", "-no-color", "-input=false", PLAN);
  }

  /** Of what was applied. */
  async render(place: string): Promise<Rendered> {
    return renderState((await this.bench.run(place, "show", "-json")).text);
  }

  stateFile(place: string): string {
    return join(this.bench.folder, place, "terraform.tfstate");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bench.close();
    await this.aws.stop();
  }
}

export function errorsOf({ output }: Ran): string {
  return output.slice(Math.max(0, output.indexOf("\nError: "))).slice(0, 8_000);
}
