// Asks the other gateways whether they have a session that a client wants to cancel.
import { type CancelRequest, CancelResponse, validate } from "@highwater/protocol";
import { type Deps } from "../deps.ts";

/** A gateway that has not answered by then counts as one without the session. */
const ANSWER_MS = 2_000;
export const CANCELS_PATH = "/internal/cancels";

/** True as soon as one of them has it. */
export async function askPeers(
  transport: Pick<Deps["transport"], "post">,
  peers: readonly string[],
  key: Buffer,
): Promise<boolean> {
  const question: CancelRequest = { key: key.toString("hex") };
  const body = JSON.stringify(question);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const asked = peers.map(async (peer) => {
    const answer = await transport.post(`${peer}${CANCELS_PATH}`, body, ANSWER_MS);
    if (answer.status !== 200) return;
    const checked = validate(CancelResponse, JSON.parse(answer.body));
    if (checked.ok && checked.value.found) resolve(true);
  });
  void Promise.allSettled(asked).then(() => {
    resolve(false);
  });
  return promise;
}
