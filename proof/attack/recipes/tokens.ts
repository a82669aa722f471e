// Tokens that no gateway signed must not make a tracker write, count or keep anything.
import { randomBytes } from "node:crypto";
import { eventually } from "@highwater/lab-tools/process";
import { newId } from "../caller.ts";
import { type Recipe } from "../recipe.ts";
import { type Target } from "../target.ts";

const FORGED = 1_000;
const LOOK_AGAIN_MS = 2_000;

interface Traces {
  readonly tombstones: number;
  readonly events: number;
  readonly lost: number;
}

async function traces(target: Target): Promise<Traces> {
  return {
    tombstones: await target.count("SELECT FROM highwater.receipt WHERE kind <> 'commit'"),
    events: await target.count("SELECT FROM highwater.event WHERE type LIKE 'transaction.%'"),
    lost: await target.trackerMetric("highwater_lost_total"),
  };
}

/**
 * Earlier attacks leave announced attempts that were refused. When their epoch ends, trackers look
 * them up after a few seconds, settle them as lost and record events.
 */
async function waitForVerdicts(target: Target): Promise<void> {
  await eventually("no tracker has anything in doubt, or an event that is not recorded", async () => {
    const inDoubt = await target.trackerMetric("highwater_in_doubt_transactions");
    return inDoubt === 0 && (await target.trackerMetric("highwater_events_kept")) === 0;
  });
}

/**
 * Flags, a key number, id, epoch, no parent, no owner, an offset, and a MAC of zeros. All but the
 * MAC is public.
 */
function unsigned(id: string, epoch: string): string {
  const uuids = `${id}${epoch}`.replaceAll("-", "");
  const none = "00".repeat(16);
  const hex = `0001${uuids}${none}${none}0de0b6b3a7640000${none}`;
  return `hw2_${Buffer.from(hex, "hex").toString("base64url")}`;
}

/** A real token with another id or offset. */
function changed(token: string, at: number): string {
  const body = Buffer.from(token.slice(token.indexOf("_") + 1), "base64url");
  const index = at % body.length;
  body[index] = (body[index] ?? 0) ^ (1 << (at % 8));
  return token.slice(0, token.indexOf("_") + 1) + body.toString("base64url");
}

export const TOKENS: readonly Recipe[] = [
  {
    item: "2",
    title: "a read key presents a thousand forged tokens of an epoch that has ended",
    run: async (target) => {
      const { reader, other } = target;
      const real = String((await other.mustCommit("SELECT 1")).body["token"]);
      await target.system.cluster.restart(target.primary);
      await target.system.ready();
      const [epoch] = await target.look("SELECT id::text FROM highwater.epoch ORDER BY seq LIMIT 1");
      await waitForVerdicts(target);
      const before = await traces(target);
      const forged = [
        ...Array.from({ length: FORGED }, () => unsigned(newId(), String(epoch?.["id"]))),
        ...Array.from({ length: FORGED }, (_, at) => changed(real, at)),
        ...Array.from({ length: 10 }, () => `hw2_${randomBytes(107).toString("base64url")}`),
      ];
      for (let from = 0; from < forged.length; from += FORGED)
        await reader.verdicts(forged.slice(from, from + FORGED));
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
      const after = await traces(target);
      return JSON.stringify(after) === JSON.stringify(before)
        ? null
        : `traces before ${JSON.stringify(before)}, after ${JSON.stringify(after)}`;
    },
  },
  {
    item: "2",
    title: "a read key poisons the open id of another tenant by a token",
    run: async (target) => {
      const { reader, other } = target;
      const open = await other.begin({ statements: [{ sql: "SELECT 1" }] });
      const [epoch] = await target.look("SELECT id::text FROM highwater.epoch ORDER BY seq LIMIT 1");
      await reader.verdicts([unsigned(open.id, String(epoch?.["id"]))]);
      const committed = await other.call(open, "commit", { seq: 1 });
      return committed.status === 200 ? null : `the victim's commit: ${String(committed.status)}`;
    },
  },
];
