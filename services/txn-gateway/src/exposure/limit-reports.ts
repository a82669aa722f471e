// Reports this gateway's limits of exposure and the time of its commits to every tracker, so that
// operators find those of all gateways in one place. Nothing is decided by them: a report that does
// not arrive is not sent again, and the next one comes soon.
import { type ExposureLimitsReport, type ReportedLimit } from "@highwater/protocol";
import { type Buckets, type Clock, quantileBetween, sleep } from "@highwater/runtime";
import { type ServiceTransport } from "../deps.ts";

export interface LimitReportsOptions {
  readonly clock: Clock;
  readonly transport: Pick<ServiceTransport, "post">;
  readonly gateway: string;
  readonly region: string;
  readonly level: string;
  readonly trackers: readonly string[];
  readonly limits: () => readonly ReportedLimit[];
  /** How long fast writes have taken so far. */
  readonly commits: () => Buckets;
}

export const REPORT_LIMITS_MS = 5_000;

export class LimitReports {
  readonly #options: LimitReportsOptions;
  readonly #stop = new AbortController();

  constructor(options: LimitReportsOptions) {
    this.#options = options;
  }

  start(): void {
    for (const tracker of this.#options.trackers) void this.#keepReporting(tracker);
  }

  stop(): void {
    this.#stop.abort();
  }

  async #keepReporting(tracker: string): Promise<void> {
    const { clock, transport } = this.#options;
    const { signal } = this.#stop;
    let before: Buckets = [];
    while (!signal.aborted) {
      const commits = this.#options.commits();
      const body = JSON.stringify(this.#report(quantileBetween(before, commits, 0.5)));
      before = commits;
      // An older tracker does not know the call.
      await transport
        .post(`${tracker}/internal/exposure-limits`, body, REPORT_LIMITS_MS)
        .catch(() => undefined);
      await sleep(clock, REPORT_LIMITS_MS, signal);
    }
  }

  #report(commitMs: number | null): ExposureLimitsReport {
    const { gateway, region, level, limits } = this.#options;
    return { gateway, region, level, limits: [...limits()], commitMs };
  }
}
