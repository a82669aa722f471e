// One client and one gate per process. Settings come from HIGHWATER_URL and HIGHWATER_API_KEY.
import { Highwater } from "@highwater/sdk";
import { OutputGate } from "@highwater/sdk/gate";

export const hw = new Highwater();
export const gate = new OutputGate(hw, { timeoutMs: 5_000 });
