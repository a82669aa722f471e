// Valid examples: what the services and their clients say to each other, as seeds of the targets.
import { readdirSync, readFileSync } from "node:fs";
import { encodeToken, type EpochId, type Offset, type TxnId } from "@highwater/protocol";

export const ID = "0199c0de-0000-7000-8000-00000000abcd";
export const EPOCH = "6f1c9c52-8f11-4c2e-9d43-2f6f7a1f0b11";
export const OTHER_EPOCH = "0b9a4f0e-2f4d-4a57-8d3e-55c1f1ad2c02";

const content = {
  kind: "write",
  id: ID as TxnId,
  epoch: EPOCH as EpochId,
  attempt: EPOCH as EpochId,
} as const;
export const TOKEN = encodeToken({ ...content, offset: 83_886_080n as Offset });

export const TOKENS: readonly string[] = [
  TOKEN,
  encodeToken({ ...content, kind: "read", offset: 0n as Offset }),
  encodeToken({ ...content, offset: (1n << 96n) as Offset, attempt: OTHER_EPOCH as EpochId }),
  encodeToken({ ...content, offset: 255n as Offset, owner: -7n }),
  encodeToken({
    ...content,
    offset: (10n ** 64n - 1n) as Offset,
    attempt: OTHER_EPOCH as EpochId,
    owner: 9n,
  }),
];

const FIXTURES = new URL("../../packages/protocol/fixtures/", import.meta.url);

/** The golden messages of the wire, as the file has them. */
export function fixtures(name: RegExp): string[] {
  return readdirSync(FIXTURES)
    .filter((file) => name.test(file))
    .sort()
    .map((file) => readFileSync(new URL(file, FIXTURES), "utf8"));
}

export const TOPOLOGY = {
  nodes: [
    { id: "east", region: "us-east", zone: "a", url: "postgresql://u:secret-of-east@10.0.0.1:5432/app" },
    {
      ...{ id: "west", region: "us-west", zone: "b", url: "postgresql://u:secret-of-west@10.0.0.2:5432/app" },
      replication: { address: "10.0.0.0/24", slot: "west" },
    },
    { id: "eu", region: "eu", zone: "c", url: "postgresql://u@10.0.0.3/app", replication: { ask: true } },
  ],
  levels: {
    disk: { primary: true },
    zone: { replicas: 1, outside: "zone" },
    region: { replicas: 1, outside: "region" },
    global: { regions: "all" },
  },
};

/** Where an operator puts one. What stands anywhere else, in a name for example, nobody can know to be a secret. */
export const SECRET_IN_PLACE =
  /(?:"url":"postgresql:\/\/u:|^HIGHWATER_LEASE_ETCD=http:\/\/root:|^(?:HIGHWATER_INTERNAL|GATEWAY_SESSION)_SECRET=|^GATEWAY_ROLE_PASSWORDS=\{"app_orders":"|^\{"app":")secret-of-\w+/gm;
