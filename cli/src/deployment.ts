// What arguments and environment say of a deployment: its topology, and its trackers with the
// credential to ask them.
import { readFileSync } from "node:fs";
import { type TrackerCaller } from "@highwater/durability-tracker/failover";
import { type Topology } from "@highwater/protocol";
import { operatorHere } from "@highwater/runtime/operator";
import {
  DEPLOYMENT_SETTINGS,
  Faults,
  internalCredential,
  parseTopology,
  readSettings,
  secret,
  tlsAuthority,
  topologyPath,
  trustAuthority,
  urls,
} from "@highwater/service";
import { type Call } from "./command.ts";
import { badInput } from "./refusal.ts";
import { readTopology } from "./topology-check.ts";

/** From the file, or from HIGHWATER_TOPOLOGY. Errors: Refusal. */
export function topologyOf(path: string | null, env: Call["env"]): Topology {
  const file = path ?? topologyPath(env);
  if (file !== null) {
    const { topology, faults } = readTopology(file);
    if (topology === null) throw badInput(...faults);
    return topology;
  }
  const value = env["HIGHWATER_TOPOLOGY"] ?? "";
  if (value === "") throw badInput("name the topology file, or set HIGHWATER_TOPOLOGY");
  try {
    return parseTopology(value);
  } catch (cause) {
    throw cause instanceof Faults ? badInput(...cause.faults) : cause;
  }
}

const HOLD = { replayHoldMs: DEPLOYMENT_SETTINGS.replayHoldMs } as const;

/** By how much a failover may take longer. Null: the services hold no writes. Errors: Refusal. */
export function replayHoldOf(env: Call["env"]): { readonly ms: number; readonly says: string } | null {
  const { values, faults } = readSettings(HOLD, env, (path) => readFileSync(path, "utf8"));
  if (faults.length > 0) throw badInput(...faults);
  const ms = values.replayHoldMs;
  if (ms === 0) return null;
  const says = `HIGHWATER_REPLAY_HOLD_MS is ${String(ms)}: a failover takes up to ${String(ms / 1_000)} s more, in which writes wait for lost transactions to be brought back`;
  return { ms, says };
}

const SETTINGS = {
  trackers: urls("HIGHWATER_TRACKERS"),
  apiKey: secret("HIGHWATER_API_KEY"),
  internalSecret: secret("HIGHWATER_INTERNAL_SECRET"),
  tlsAuthority,
} as const;

export interface Trackers {
  /** Base URLs. */
  readonly urls: readonly string[];
  readonly caller: TrackerCaller;
}

/** Those of HIGHWATER_TRACKERS, and of the option `--tracker`. Errors: Refusal. */
export function trackersOf({ given, env }: Pick<Call, "given" | "env">): Trackers {
  const { values, faults } = readSettings(SETTINGS, env, (path) => readFileSync(path, "utf8"));
  if (faults.length > 0) throw badInput(...faults);
  const more = given.all("tracker").map((url) => url.replace(/\/+$/, ""));
  for (const url of more)
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
      throw badInput("--tracker must be an http or https URL");
  trustAuthority(values.tlsAuthority);
  const { internalSecret } = values;
  const apiKey = values.apiKey ?? (internalSecret === null ? null : internalCredential(internalSecret));
  return { urls: [...new Set([...values.trackers, ...more])], caller: { fetch, apiKey } };
}

/** Who runs the command, for the audit log. */
export function operatorOf({ given }: Pick<Call, "given">): string {
  return given.text("by") ?? operatorHere();
}
