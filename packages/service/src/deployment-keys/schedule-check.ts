// Checks that all services of a deployment have the same schedule of keys. Each service compares
// its schedule with check values in the store, which the first service wrote.
// (docs/decisions/0101-services-compare-their-schedules.md)
import { type Clock, sleep } from "@highwater/runtime";
import { type KeyCheck, type Store } from "@highwater/store";
import { type Log } from "../log.ts";
import { type DeploymentKeys } from "./deployment-keys.ts";

export interface ScheduleCheckOptions {
  readonly keys: DeploymentKeys;
  readonly store: Pick<Store, "keyChecks" | "addKeyChecks">;
  readonly clock: Clock;
  readonly log: Log;
  /** The authoritative primary, as the service knows it now. */
  readonly primary: () => string | null;
}

const EVERY_MS = 10_000;
/** Until the first comparison, without which the service is not ready. */
const FIRST_EVERY_MS = 100;

export class ScheduleCheck {
  readonly #options: ScheduleCheckOptions;
  readonly #own: readonly KeyCheck[];
  readonly #stop = new AbortController();
  #fault: string | null = "The schedule of deployment keys has not yet been compared with the store's.";
  #isCompared = false;

  constructor(options: ScheduleCheckOptions) {
    this.#options = options;
    this.#own = checksOf(options.keys);
  }

  /**
   * Why the service must not work with its schedule; null while it agrees. A comparison that fails
   * changes nothing.
   */
  get fault(): string | null {
    return this.#fault;
  }

  start(): void {
    void this.#run();
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Called when a primary is known, so that the first comparison need not wait. */
  wake(): void {
    // Not in the caller's turn, in which the primary may be changing.
    if (!this.#isCompared) void Promise.resolve().then(() => this.#tryToCompare());
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await this.#tryToCompare();
      await sleep(this.#options.clock, this.#isCompared ? EVERY_MS : FIRST_EVERY_MS, signal);
    }
  }

  async #tryToCompare(): Promise<void> {
    await this.#compare().catch((cause: unknown) => {
      this.#options.log.warn("deployment_keys_not_compared", { cause: String(cause) });
    });
  }

  async #compare(): Promise<void> {
    const { store, clock, log } = this.#options;
    const node = this.#options.primary();
    if (node === null) return;
    const compare = async (): Promise<ReturnType<typeof compareSchedules>> =>
      compareSchedules(this.#own, await store.keyChecks(node), clock.wallMs());
    const first = await compare();
    let { faults } = first;
    if (faults.length === 0 && first.missing.length > 0) {
      await store.addKeyChecks(node, first.missing);
      // Another service may have written check values in the meantime.
      ({ faults } = await compare());
    }
    const fault = faults.length === 0 ? null : describe(faults);
    if (fault !== null && fault !== this.#fault) log.error("deployment_keys_differ", { reason: fault });
    if (fault === null && this.#isCompared && this.#fault !== null) log.info("deployment_keys_agree");
    this.#fault = fault;
    this.#isCompared = true;
  }
}

export function checksOf(keys: DeploymentKeys): KeyCheck[] {
  return keys.schedule.map(({ kid, validFromMs }) => ({
    kid,
    validFromMs,
    value: keys.sign("check", `schedule ${String(kid)} ${String(validFromMs)}`, kid).mac.toString("hex"),
  }));
}

/** `faults`: contradictions to the store's check values. `missing`: values to add to them. */
export function compareSchedules(
  own: readonly KeyCheck[],
  known: readonly KeyCheck[],
  nowMs: number,
): { readonly faults: readonly string[]; readonly missing: readonly KeyCheck[] } {
  if (known.length === 0) return { faults: [], missing: own };
  const faults: string[] = [];
  const missing: KeyCheck[] = [];
  const [ownOldestMs, knownOldestMs] = [own, known].map((each) =>
    Math.min(...each.map(({ validFromMs }) => validFromMs)),
  ) as [number, number];
  for (const { kid, validFromMs, value } of known) {
    const mine = own.find((each) => each.kid === kid);
    if (mine === undefined) {
      // No fault if older than this whole schedule (retired), or not valid yet (being rolled out).
      if (validFromMs > ownOldestMs && validFromMs <= nowMs) faults.push(`it lacks key ${String(kid)}`);
    } else if (mine.value !== value) faults.push(`key ${String(kid)} has another secret or validFrom`);
  }
  for (const mine of own) {
    if (known.some(({ kid }) => kid === mine.kid)) continue;
    if (mine.validFromMs > nowMs) missing.push(mine);
    // A key older than all known ones has been retired elsewhere.
    else if (mine.validFromMs > knownOldestMs)
      faults.push(`key ${String(mine.kid)} was not published before its validFrom`);
  }
  return { faults, missing };
}

function describe(faults: readonly string[]): string {
  return (
    `The schedule of deployment keys (HIGHWATER_DEPLOYMENT, HIGHWATER_DEPLOYMENT_KEYS) differs from the one that the deployment's services have published: ${faults.join("; ")}. ` +
    "Give every service the same schedule. If this one is right, empty the table highwater.deployment_key on the primary."
  );
}
