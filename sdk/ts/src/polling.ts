// Marks for a client that no stream reaches, as behind a proxy that holds answers back until they are whole: they are asked for.
import { sleep } from "./runtime.ts";
import type { StreamDeps } from "./stream.ts";
import { exchange } from "./transport.ts";
import { isEpochs, isMarks, type MarksResponse, orNull, shape } from "./wire.ts";

export const isMarksResponse = shape<MarksResponse>({ marks: orNull(isMarks), epochs: isEpochs });

/** Asks for marks for a while, rarer while they do not rise. False when even the first question gets no answer. */
export async function poll(deps: StreamDeps, base: string, stop: AbortSignal): Promise<boolean> {
  const { runtime, tuning, headers, onEpochs, onMarks } = deps;
  const untilMs = runtime.monotonicMs() + tuning.pollForMs;
  const url = `${base}/v1/durability/marks`;
  let isAnswered = false;
  let newest = "";
  let same = 0;
  try {
    do {
      const request = { url, headers, timeoutMs: tuning.streamOpenMs, signal: stop };
      const { body } = await exchange(runtime, request);
      if (!isMarksResponse(body)) break;
      if (!isAnswered) runtime.observe({ type: "polling", url });
      isAnswered = true;
      onEpochs(body.epochs);
      onMarks(body.marks);
      const text = JSON.stringify(body.marks);
      same = text === newest ? same + 1 : 0;
      newest = text;
      const delayMs = Math.min(tuning.pollMaxMs, tuning.pollBaseMs * 2 ** Math.min(same, 20));
      await sleep(delayMs * (0.75 + runtime.random() / 2), stop, true);
    } while (runtime.monotonicMs() <= untilMs);
  } catch {
    // It is over; whether it was of use is known.
  }
  return isAnswered;
}
