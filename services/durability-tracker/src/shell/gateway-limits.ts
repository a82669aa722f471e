// The limits of exposure and the times of commits, as gateways have last reported them to this
// tracker. For operators alone: no verdict, mark or refusal depends on them.
import { type ExposureLimits, type ExposureLimitsReport } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";

/** A gateway that has not reported for so long has stopped, or reaches only other trackers. */
const KEPT_MS = 60_000;
const MAX_GATEWAYS = 1_000;

interface Reported {
  readonly report: ExposureLimitsReport;
  readonly atMs: number;
}

export class GatewayLimits {
  readonly #clock: Pick<Clock, "monotonicMs">;
  /** By the gateway's name, longest silent first. */
  readonly #reported = new Map<string, Reported>();

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  take(report: ExposureLimitsReport): void {
    this.#reported.delete(report.gateway);
    this.#reported.set(report.gateway, { report, atMs: this.#clock.monotonicMs() });
    const [longest] = this.#reported.keys();
    if (this.#reported.size > MAX_GATEWAYS && longest !== undefined) this.#reported.delete(longest);
  }

  list(): ExposureLimits {
    const nowMs = this.#clock.monotonicMs();
    for (const [gateway, { atMs }] of this.#reported)
      if (nowMs - atMs > KEPT_MS) this.#reported.delete(gateway);
    const gateways = Array.from(this.#reported.values(), ({ report, atMs }) => ({
      ...report,
      ageMs: Math.round(nowMs - atMs),
    }));
    return { gateways: gateways.sort((one, other) => (one.gateway < other.gateway ? -1 : 1)) };
  }
}
