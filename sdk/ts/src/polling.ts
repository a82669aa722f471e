// Polls for marks if no stream gets through, for example behind a proxy that buffers responses.
import { type Shared } from "./shared.ts";
import { doubled, monotonicMs, sleep } from "./runtime.ts";
import { exchange } from "./transport.ts";
import { isMarksResponse, type MarksResponse } from "./wire.ts";

/**
 * Polls for marks for a while, slower if they do not rise. Returns the error if the first poll
 * fails.
 */
export async function poll(
  shared: Shared,
  onUpdate: (update: MarksResponse) => void,
  base: string,
  signal: AbortSignal,
): Promise<unknown> {
  const { headers, trackers, observe, streamOpenMs, pollForMs, pollBaseMs, pollMaxMs } = shared;
  const untilMs = monotonicMs() + pollForMs;
  const url = `${base}/v1/durability/marks`;
  let failed: unknown = new Error("no marks");
  let newest = "";
  let same = 0;
  try {
    do {
      const { body } = await exchange(shared, { url, headers, timeoutMs: streamOpenMs, signal });
      if (!isMarksResponse(body)) break;
      if (failed) observe({ type: "polling", url });
      failed = undefined;
      onUpdate(body);
      if (body.blind) {
        trackers.failed(base);
        if (trackers.hasAwake()) break;
      }
      const text = JSON.stringify(body.marks);
      same = text === newest ? same + 1 : 0;
      newest = text;
      await sleep(doubled(pollBaseMs, same, pollMaxMs) * (0.75 + Math.random() / 2), signal, true);
    } while (monotonicMs() <= untilMs);
  } catch (error) {
    // A later poll has failed: this was of use all the same.
    failed &&= error;
  }
  return failed;
}
