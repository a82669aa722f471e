// What a test asks the database itself, behind the gateway's back.
import assert from "node:assert/strict";
import { type Cluster } from "@highwater/lab-cluster";
import { type EpochRecord } from "@highwater/protocol";
import { epochRecord } from "@highwater/protocol/testing";

/** The node's only epoch, as a tracker would know it. */
export async function readEpoch(cluster: Cluster, node: string): Promise<EpochRecord> {
  const [row] = await cluster.query(node, "SELECT id::text, seq::int, node FROM highwater.epoch");
  assert.ok(row !== undefined);
  return epochRecord(String(row["id"]), {
    seq: Number(row["seq"]),
    node: String(row["node"]),
    startedAt: new Date().toISOString(),
    startOffset: "0",
    forkLimit: "0",
  });
}
