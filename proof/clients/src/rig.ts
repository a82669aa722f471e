// A system with a wire, and the two targets of every suite: the primary itself, and the wire in
// front of it. Database, role and names are the same, so answers can be equal to the byte.
import { System } from "@highwater/lab-system";
import { compare, type Comparison, type Transcript } from "./compare.ts";
import { REASONS } from "./reasons.ts";

export interface Target {
  readonly name: "direct" | "wire";
  /** With role `client` and database `app`. Schema `client` is the suite's own. */
  readonly url: string;
}

/** Runs one client against a target. */
export interface Suite {
  readonly name: string;
  readonly run: (target: Target) => Promise<Transcript>;
}

/** The value of `highwater.ack` for the clients' role. */
export type Ack = "durable" | "commit";

const [HOME, OTHER] = ["us-east", "us-west"] as const;
const ROLE = "client";
/** Short, because suites make thousands of commits one after another. */
const ROUND_TRIP_MS = 2;

export class Rig implements AsyncDisposable {
  readonly system: System;
  readonly #urls: Readonly<Record<Target["name"], string>>;

  private constructor(system: System, urls: Readonly<Record<Target["name"], string>>) {
    this.system = system;
    this.#urls = urls;
  }

  static async start(): Promise<Rig> {
    const system = await System.start({
      cluster: {
        nodes: [HOME, OTHER].map((region) => ({ id: region, region })),
        roundTripMs: { [`${HOME}/${OTHER}`]: ROUND_TRIP_MS },
        settings: { max_prepared_transactions: "20" },
      },
      // The server authenticates the clients, as it does without the wire.
      env: { GATEWAY_PG_AUTH: "passthrough" },
    });
    try {
      const admin = (text: string): Promise<unknown> => system.cluster.query(HOME, text);
      await admin(`CREATE ROLE ${ROLE} LOGIN CREATEDB IN ROLE app`);
      await admin(`ALTER ROLE ${ROLE} SET search_path = client`);
      const direct = await system.cluster.connectionString(HOME, { from: HOME, user: ROLE });
      return new Rig(system, { direct, wire: system.pgUrl(HOME, ROLE) });
    } catch (cause) {
      await system.close();
      throw cause;
    }
  }

  /** Runs the suite on both targets, each time in an empty schema. */
  async compare(suite: Suite, { ack = "durable" }: { readonly ack?: Ack } = {}): Promise<Comparison> {
    const direct = await suite.run(await this.target("direct", { ack }));
    const wire = await suite.run(await this.target("wire", { ack }));
    return compare(suite.name, { direct, wire }, REASONS);
  }

  /** First empties the clients' schema. */
  async target(name: Target["name"], { ack = "durable" }: { readonly ack?: Ack } = {}): Promise<Target> {
    const { cluster } = this.system;
    await cluster.query(HOME, "DROP SCHEMA IF EXISTS client CASCADE");
    await cluster.query(HOME, `CREATE SCHEMA client AUTHORIZATION ${ROLE}`);
    await cluster.query(HOME, `ALTER ROLE ${ROLE} SET highwater.ack = '${ack}'`);
    return { name, url: this.#urls[name] };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.system.close();
  }
}
