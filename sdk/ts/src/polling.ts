// Polls for marks if no stream gets through, for example behind a proxy that buffers responses.
import { type Shared } from "./shared.ts";
import { doubled, monotonicMs, sleep } from "./runtime.ts";
import { exchange } from "./transport.ts";
import { isMarksResponse, type MarksResponse } from "./wire.ts";

/**
 * Polls for marks for a while, slower if they do not rise. Returns false if the first poll fails.
 */
export async function poll(
  shared: Shared,
  onUpdate: (update: MarksResponse) => void,
  base: string,
  signal: AbortSignal,
): Promise<boolean> {
  const { headers, trackers, observe, random, streamOpenMs, pollForMs, pollBaseMs, pollMaxMs } = shared;
  const untilMs = monotonicMs() + pollForMs;
  const url = `${base}/v1/durability/marks`;
  let isAnswered = false;
  let newest = "";
  let same = 0;
  try {
    do {
      const { body } = await exchange(shared, { url, headers, timeoutMs: streamOpenMs, signal });
      if (!isMarksResponse(body)) break;
      if (!isAnswered) observe({ type: "polling", url });
      isAnswered = true;
      onUpdate(body);
      if (body.blind) {
        trackers.failed(base, monotonicMs());
        if (trackers.hasAwake(monotonicMs())) break;
      }
      const text = JSON.stringify(body.marks);
      same = text === newest ? same + 1 : 0;
      newest = text;
      await sleep(doubled(pollBaseMs, same, pollMaxMs) * (0.75 + random() / 2), signal, true);
    } while (monotonicMs() <= untilMs);
  } catch {
    // Polling is over; `isAnswered` says whether it was of use.
  }
  return isAnswered;
}
