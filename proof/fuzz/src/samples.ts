// Valid examples: messages between the services and their clients, as seeds of the targets.
import { readdirSync, readFileSync } from "node:fs";
import { type EpochId } from "@highwater/protocol";
import { testToken } from "@highwater/service/testing";

export const ID = "0199c0de-0000-7000-8000-00000000abcd";
export const EPOCH = "6f1c9c52-8f11-4c2e-9d43-2f6f7a1f0b11";
export const OTHER_EPOCH = "0b9a4f0e-2f4d-4a57-8d3e-55c1f1ad2c02";

const content = { id: ID, epoch: EPOCH };
const attempt = OTHER_EPOCH as EpochId;
export const TOKEN = testToken({ ...content, offset: 83_886_080n });

export const TOKENS: readonly string[] = [
  TOKEN,
  testToken({ ...content, kind: "read", offset: 0n }),
  testToken({ ...content, kind: "position", offset: 65_536n }),
  testToken({ ...content, offset: 1n << 96n, attempt }),
  testToken({ ...content, offset: 255n, owner: 7n, parent: attempt }),
  testToken({ ...content, offset: 10n ** 64n - 1n, attempt, owner: 9n }),
];

/** Contents of that attempt of owner 7, as targets/contents.ts can open them. */
export const SEALED =
  "AQFiI5zeO7_nebBYXbrOkNf_asZq0CDP1UgXi41uxyMXVgwUEchq9K_zAB_MiVveh0anLnDT7irLauWBvkCR6YEfRsfXTqhxqrETLRVl2oYkZQfi1Vb-y5wHgh7v8o1fc8w0FpfgMg";

const FIXTURES = new URL("../../../packages/protocol/fixtures/", import.meta.url);

/** The golden messages of the wire. */
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
      id: "west",
      region: "us-west",
      zone: "b",
      url: "postgresql://u:secret-of-west@10.0.0.2:5432/app",
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

/**
 * The settings in which an operator puts a secret. No code can recognise a secret elsewhere, for
 * example in a name.
 */
export const SECRET_IN_PLACE =
  /(?:"url":"postgresql:\/\/u:|^HIGHWATER_LEASE_ETCD=http:\/\/root:|^(?:HIGHWATER_INTERNAL|GATEWAY_SESSION)_SECRET=|^GATEWAY_ROLE_PASSWORDS=\{"app_orders":"|^\{"app":"|"secret":")secret-of-\w+/gm;
