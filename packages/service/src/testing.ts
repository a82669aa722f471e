// For tests: a deployment with public keys, and a log that keeps its entries.
import { encodeToken, type EpochId, type Offset, type TokenContent, type TxnId } from "@highwater/protocol";
import { DeploymentKeys } from "./deployment-keys/deployment-keys.ts";
import { type Log } from "./log.ts";

/** The settings of the deployment that tests and development systems use. Its secret is public. */
export const TEST_DEPLOYMENT = {
  HIGHWATER_DEPLOYMENT: "development",
  HIGHWATER_DEPLOYMENT_KEYS: JSON.stringify([
    { kid: 1, validFrom: "1970-01-01T00:00:00Z", secret: "for development only, known to everybody" },
  ]),
} as const;

/** The keys of that deployment. */
export function testDeploymentKeys(): DeploymentKeys {
  const [key] = JSON.parse(TEST_DEPLOYMENT.HIGHWATER_DEPLOYMENT_KEYS) as [{ kid: number; secret: string }];
  return new DeploymentKeys({
    deployment: TEST_DEPLOYMENT.HIGHWATER_DEPLOYMENT,
    schedule: [{ ...key, validFromMs: 0 }],
    wallMs: () => 0,
  });
}

/** A token's content in a test. Default: a write in a first epoch, without an owner. */
export type TestToken = Partial<Omit<TokenContent, "id" | "epoch" | "offset">> & {
  readonly id: string;
  readonly epoch: string;
  readonly offset: bigint;
};

/** A token as a gateway of that deployment signs it. */
export function testToken({ id, epoch, offset, ...rest }: TestToken, keys = testDeploymentKeys()): string {
  const position = { id: id as TxnId, epoch: epoch as EpochId, offset: offset as Offset };
  const content = {
    kind: "write",
    parent: null,
    owner: 0n,
    attempt: position.epoch,
    ...position,
    ...rest,
  } as const;
  return encodeToken(content, keys);
}

export class MemoryLog implements Log {
  readonly events: string[] = [];
  info(event: string): void {
    this.events.push(event);
  }
  warn(event: string): void {
    this.events.push(event);
  }
  error(event: string): void {
    this.events.push(event);
  }
}
