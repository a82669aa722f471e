// One client and one gate per process. They are made at the first request: `next build` loads this
// file where the settings are not known.
//
//   GATEWAYS   addresses with commas, nearest first
//   TRACKERS   the same; without them, the first addresses are edges
//   GATE       seconds that a response may be held; empty: no gate
import { Highwater } from "@highwater/sdk";
import { OutputGate } from "@highwater/sdk/gate";

const { env } = process;
const addresses = (list: string | undefined): readonly string[] => list?.split(",") ?? [];

function connect(): { readonly hw: Highwater; readonly gate: OutputGate | undefined } {
  const trackers = addresses(env["TRACKERS"]);
  const endpoints = addresses(env["GATEWAYS"]).map((gateway, at) => ({
    gateway,
    tracker: trackers[at] ?? gateway,
  }));
  const hw = new Highwater({ endpoints });
  const { GATE = "5" } = env;
  return { hw, gate: GATE === "" ? undefined : new OutputGate(hw, { timeoutMs: Number(GATE) * 1_000 }) };
}

let connected: ReturnType<typeof connect> | undefined;

/** A route handler whose response waits at the gate. */
export const gated =
  <A extends readonly unknown[]>(handler: (hw: Highwater, ...args: A) => Promise<Response>) =>
  (...args: A): Promise<Response> => {
    const { hw, gate } = (connected ??= connect());
    return gate ? gate.route(handler)(hw, ...args) : handler(hw, ...args);
  };
