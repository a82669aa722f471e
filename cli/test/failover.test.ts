// Goal: `highwater failover preview` says what the trackers know, and `failover authorize` names a
// promoted node as the primary when nothing speaks against it. Method: two regions with real
// services, whose authority is the operator; the primary dies, and the replica is promoted by SQL.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { System } from "@highwater/lab-system";
import { commit, commitKeys, createTable, eventually, put, starve } from "@highwater/lab-system/testing";
import { highwater } from "./support.ts";

const [EAST, WEST] = ["us-east", "us-west"] as const;
const LATE = 3;

interface Preview {
  readonly epoch: { readonly id: string; readonly primary: string };
  readonly candidates: readonly {
    readonly node: string;
    readonly transactions: number | null;
    readonly bytes: string;
    readonly promises: readonly unknown[];
    readonly ids: readonly string[];
  }[];
  readonly trackers: readonly { readonly reason: string | null; readonly follows: boolean }[];
}

interface Authorization {
  readonly exitCode: number;
  readonly epoch: string | null;
  readonly command: { readonly id: string } | null;
  readonly obstacles: readonly string[];
}

describe("a failover by hand", () => {
  let system: System;
  let env: Record<string, string>;

  before(async () => {
    system = await System.start({
      cluster: {
        nodes: [EAST, WEST].map((id) => ({ id, region: id })),
        roundTripMs: { "us-east/us-west": 0 },
      },
      env: { HIGHWATER_AUTHORITY: "operator" },
    });
    await createTable(system, EAST);
    env = {
      HIGHWATER_TOPOLOGY: `@${system.topologyFile(WEST)}`,
      HIGHWATER_AUTHORITY: "operator",
      HIGHWATER_TRACKERS: [EAST, WEST].map((region) => system.tracker(region).url).join(","),
    };
  });

  after(() => system.close());

  const authorize = async (...args: string[]): Promise<Authorization> => {
    const { code, out, err } = await highwater(["failover", "authorize", WEST, "--json", ...args], { env });
    assert.notEqual(out, "", err);
    const found = JSON.parse(out) as Authorization;
    assert.equal(found.exitCode, code);
    return found;
  };

  test("preview counts what only the primary has", async () => {
    await starve(system, WEST);
    const late = await commitKeys(system.gateway(EAST).url, "late", LATE);
    const preview = await eventually("both trackers know them", async () => {
      const { code, out } = await highwater(["failover", "preview", "--list", "10", "--json"], { env });
      const found = JSON.parse(out === "" ? "{}" : out) as Preview;
      return code === 0 && found.candidates[0]?.transactions === LATE ? found : undefined;
    });
    const [only] = preview.candidates;
    assert.deepEqual([preview.epoch.primary, only?.node, only?.promises], [EAST, WEST, []]);
    assert.deepEqual([...(only?.ids ?? [])].sort(), late.map(({ body }) => body.id).sort());
    assert.ok(BigInt(only?.bytes ?? 0) > 0n);
    const text = await highwater(["failover", "preview"], {
      env: { ...env, HIGHWATER_REPLAY_HOLD_MS: "2500" },
    });
    assert.match(text.out, /^HIGHWATER_REPLAY_HOLD_MS is 2500: a failover takes up to 2\.5 s more/m);
    assert.match(
      text.out,
      /^us-east is the primary, in epoch 1 .*\n.*\n +node .*\n +us-west +\d+ +\d+ bytes +3 +none/,
    );
  });

  test("preview without a tracker that answers", async () => {
    const none = await highwater(["failover", "preview"]);
    assert.deepEqual([none.code, none.err], [2, "no tracker: set HIGHWATER_TRACKERS, or give --tracker"]);
    const dead = await highwater(["failover", "preview", "--tracker", "http://127.0.0.1:2"]);
    assert.equal(dead.code, 1);
    assert.match(dead.err, /^127\.0\.0\.1:2: fetch failed \(ECONNREFUSED\)$/);
  });

  test("authorize refuses a replica, and a node whose former primary may be alive", async () => {
    const replica = await authorize();
    assert.equal(replica.exitCode, 3);
    assert.match(replica.obstacles.join("\n"), /^us-west is a replica.*\nus-east is writable as well/);
    await system.cluster.kill(EAST);
    await system.cluster.promote(WEST, { command: false });
    const silent = await authorize();
    assert.match(silent.obstacles.join("\n"), /^us-east was the primary.*add --fenced$/);
  });

  test("authorize names the promoted node; commits go on, and the command is in the audit log", async () => {
    const named = await authorize("--fenced", "--by", "ada", "--reason", "the east is down");
    assert.equal(named.exitCode, 0, JSON.stringify(named));
    const { state } = await commit(system.gateway(WEST).url, [put("after")]);
    assert.equal(state, "committed");
    const [entry] = await system.cluster.query(
      WEST,
      "SELECT actor, action, target, reason FROM highwater_audit.entry ORDER BY n DESC LIMIT 1",
    );
    assert.deepEqual(entry, {
      ...{ actor: "ada", action: "authority.authorize", target: WEST, reason: "the east is down" },
    });
    const [row] = await system.cluster.query(
      WEST,
      "SELECT epoch::text FROM highwater.authority_command WHERE id = $1",
      [named.command?.id],
    );
    assert.equal(row?.["epoch"], named.epoch);
  });

  test("authorize and switchover of an HA manager's cluster, or of another node, are refused", async () => {
    for (const command of [["failover", "authorize"], ["switchover"]]) {
      const unknown = await highwater([...command, "moon"], { env });
      assert.deepEqual([unknown.code, unknown.err], [2, "moon is not a node of the topology"]);
      const lease = {
        HIGHWATER_AUTHORITY: "lease",
        HIGHWATER_LEASE_ETCD: "http://x",
        HIGHWATER_LEASE_SCOPE: "x",
      };
      const refused = await highwater([...command, WEST], { env: { ...env, ...lease } });
      assert.equal(refused.code, 3);
      assert.match(refused.err, /HA manager/);
    }
  });
});
