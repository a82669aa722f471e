// Asks one tracker for verdicts. The SDK would turn to another tracker.
import { type Level, type VerdictReport } from "@highwater/checker";
import { authorization } from "./credential.ts";

export interface TrackerVerdict {
  readonly verdict: VerdictReport["verdict"];
  readonly rule: string | null;
}

export interface Question {
  readonly tokens: readonly string[];
  readonly level: Level;
  readonly waitMs: number;
}

export interface Asking {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** The key of the tokens' owner. Default: that of this process. */
  readonly apiKey?: string | undefined;
}

interface VerdictsAnswer {
  readonly verdicts: readonly {
    readonly verdict: TrackerVerdict["verdict"];
    readonly rule?: string;
    readonly error?: unknown;
  }[];
}

/**
 * Verdicts in the order of the tokens; undefined when the tracker does not answer, or answers with
 * an error.
 */
export async function askVerdicts(
  tracker: string,
  question: Question,
  { timeoutMs, signal, apiKey }: Asking,
): Promise<TrackerVerdict[] | undefined> {
  try {
    const response = await fetch(`${tracker}/v1/durability/verdicts`, {
      method: "POST",
      headers: { "content-type": "application/json", ...authorization(apiKey) },
      body: JSON.stringify(question),
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal === undefined ? [] : [signal])]),
    });
    if (!response.ok) {
      await response.body?.cancel();
      return undefined;
    }
    const { verdicts } = (await response.json()) as VerdictsAnswer;
    return verdicts.map((one) => ({
      verdict: one.error === undefined ? one.verdict : "refused",
      rule: one.rule ?? null,
    }));
  } catch {
    return undefined;
  }
}
