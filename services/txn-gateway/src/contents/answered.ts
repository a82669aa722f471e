// Finds out whether the answer of a kept transaction left the gateway.
import { type FastifyReply } from "fastify";
import { type Kept } from "./keeper.ts";

/** To be called for an answer that is about to be sent, or is being sent. */
export function reportAnswer({ raw }: FastifyReply, all: readonly Kept[]): void {
  if (all.length === 0) return;
  let isOver = false;
  const report = (how: "yes" | "no" | "unknown"): void => {
    if (isOver) return;
    isOver = true;
    for (const kept of all) kept.answerEnded(how);
  };
  // The client may have gone while its transaction ran.
  if (raw.destroyed || raw.socket?.destroyed === true) {
    report(raw.headersSent ? "unknown" : "no");
    return;
  }
  raw.once("finish", () => {
    report("yes");
  });
  raw.once("close", () => {
    report(raw.headersSent ? "unknown" : "no");
  });
}
