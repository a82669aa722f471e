// What a run looks like while it runs: a few lines that are redrawn on a terminal, or one plain
// line now and then.
import { type Endpoint } from "@highwater/lab-system";
import { type Highwater } from "@highwater/sdk";
import { type Publishers } from "./publishers.ts";
import { quantile } from "./quantile.ts";
import { type Claim, type Recorder } from "./recorder.ts";

const DRAW_MS = 200;
const LINE_MS = 2_500;
const ASK_MS = 500;
const ASK_TIMEOUT_MS = 400;
/** Latencies shown are those of the last so many transactions. */
const RECENT = 300;
const CLEAR_BELOW = "\u001b[0J";

interface RegionMarks {
  readonly seq: number;
  readonly levels: Readonly<{ [level: string]: bigint }>;
}

export interface DisplayInputs {
  readonly client: Highwater;
  readonly recorder: Recorder;
  readonly publishers: Publishers;
  readonly endpoints: readonly Endpoint[];
}

export class Display {
  readonly #parts: DisplayInputs;
  readonly #live = process.stdout.isTTY;
  readonly #marks = new Map<string, RegionMarks | undefined>();
  readonly #startMs = performance.now();
  readonly #timers: NodeJS.Timeout[] = [];
  #drawn = 0;

  constructor(parts: DisplayInputs) {
    this.#parts = parts;
    this.#timers.push(setInterval(() => void this.#ask(), ASK_MS));
    this.#timers.push(
      setInterval(
        () => {
          if (this.#live) this.#draw();
          else console.log(`${this.#clock()}  ${this.#summary()}`);
        },
        this.#live ? DRAW_MS : LINE_MS,
      ),
    );
  }

  /** Something happened: a line that stays. */
  say(what: string): void {
    this.#wipe();
    console.log(`${this.#clock()}  ${what}`);
    if (this.#live) this.#draw();
  }

  stop(): void {
    for (const timer of this.#timers) clearInterval(timer);
    if (this.#live) this.#draw();
    this.#drawn = 0;
  }

  #clock(): string {
    return `${((performance.now() - this.#startMs) / 1_000).toFixed(1).padStart(5)} s`;
  }

  #summary(): string {
    const { recorder, publishers, client } = this.#parts;
    const committed = recorder.claims.filter(({ answer }) => answer === "committed");
    const durable = committed.filter(({ reported }) => reported === "durable").length;
    const lost = committed.filter(({ reported }) => reported === "lost").length;
    const fast = committed.filter(({ safe }) => !safe).slice(-RECENT);
    const { count, oldestMs } = client.exposure;
    return [
      `${String(publishers.tally.sold)} ads sold`,
      `committed ${String(committed.length)}, durable ${String(durable)}, lost ${String(lost)}`,
      `exposed ${String(count)} (oldest ${oldestMs.toFixed(0)} ms)`,
      `commit ${latencies(fast, commitMs)}`,
      `durable ${latencies(fast, durableMs)}`,
    ].join(" | ");
  }

  #draw(): void {
    const lines = [...this.#summary().split(" | "), ...this.#regions()].map((line) => `         ${line}`);
    this.#wipe();
    const width = process.stdout.columns;
    process.stdout.write(lines.map((line) => `${line.slice(0, width - 1)}\n`).join(""));
    this.#drawn = lines.length;
  }

  #wipe(): void {
    if (this.#drawn > 0) process.stdout.write(`\u001b[${String(this.#drawn)}A\r${CLEAR_BELOW}`);
    this.#drawn = 0;
  }

  #regions(): string[] {
    return this.#parts.endpoints.map(({ region }) => {
      const marks = this.#marks.get(region);
      const { disk, ...others } = marks?.levels ?? {};
      if (marks === undefined || disk === undefined) return `${region.padEnd(8)} no answer from its tracker`;
      const behind = Object.entries(others).map(
        ([level, offset]) => `${level} ${(Number(disk - offset) / 1_024).toFixed(1)} KiB behind`,
      );
      return `${region.padEnd(8)} epoch ${String(marks.seq)}  disk mark ${String(disk)}  ${behind.join("  ")}`;
    });
  }

  async #ask(): Promise<void> {
    await Promise.all(
      this.#parts.endpoints.map(async ({ region, tracker }) => {
        try {
          const signal = AbortSignal.timeout(ASK_TIMEOUT_MS);
          const response = await fetch(`${tracker}/v1/durability/marks`, { signal });
          const { marks } = (await response.json()) as {
            marks: { seq: number; levels: { [level: string]: string } } | null;
          };
          const levels = Object.entries(marks?.levels ?? {}).map(
            ([level, text]) => [level, BigInt(text)] as const,
          );
          this.#marks.set(
            region,
            marks === null ? undefined : { seq: marks.seq, levels: Object.fromEntries(levels) },
          );
        } catch {
          this.#marks.set(region, undefined);
        }
      }),
    );
  }
}

/** From the request to its answer. */
export function commitMs(claim: Claim): number {
  return claim.answeredMs - claim.sentMs;
}

/** From the answer to the word that it is durable; NaN without that word. */
export function durableMs(claim: Claim): number {
  return claim.reported === "durable" ? claim.reportedMs - claim.answeredMs : Number.NaN;
}

function latencies(claims: readonly Claim[], of: (claim: Claim) => number): string {
  const values = claims.map(of);
  const [p50, p99] = [quantile(values, 0.5), quantile(values, 0.99)];
  return Number.isNaN(p50) ? "-" : `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`;
}
