// Holds the `Response` of a handler, as the Fetch standard has it.
import { type Verdicts } from "./node.ts";
import { type Refusal } from "./scope.ts";

export interface RouteVerdicts extends Verdicts {
  /** Runs code as a part of the request. */
  readonly run: <T>(work: () => T) => T;
}

/** The response of the handler, or the gate's own. Throws what the handler threw, when it may. */
export async function holdRoute(
  handle: () => Response | Promise<Response>,
  verdicts: RouteVerdicts,
): Promise<Response> {
  const { run, settle, isBypassed, answer } = verdicts;
  const ended = new AbortController();
  // A throw of the handler counts as its answer: a redirect of Next.js is one.
  const result = await run(async () => {
    try {
      return { response: await handle() };
    } catch (error) {
      return { error };
    }
  });
  const refusal = isBypassed() ? undefined : await settle(ended.signal);
  if (refusal) {
    await result.response?.body?.cancel().catch(() => undefined);
    const { status, headers, body } = answer(refusal);
    return new Response(body, { status, headers });
  }
  if (result.response === undefined) throw result.error;
  const { response } = result;
  if (isBypassed() || response.body === null) return response;
  const body = holdBody(response.body, verdicts, ended);
  return new Response(body, response);
}

function holdBody(
  body: ReadableStream<Uint8Array>,
  { run, settle }: RouteVerdicts,
  ended: AbortController,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>(
    {
      pull: (controller) =>
        run(async () => {
          // An error of the stream is held like its chunks.
          const read = await reader.read().catch((error: unknown) => ({ error }));
          const refusal = await settle(ended.signal);
          if (refusal) {
            controller.error(new Error(cutMessage(refusal)));
            await reader.cancel().catch(() => undefined);
          } else if ("error" in read) controller.error(read.error);
          else if (read.done) controller.close();
          else controller.enqueue(read.value);
        }),
      cancel: (reason) => {
        ended.abort();
        return reader.cancel(reason);
      },
    },
    // Nothing is read from the handler before somebody wants it.
    { highWaterMark: 0 },
  );
}

function cutMessage({ state }: Refusal): string {
  return `the rest of the response is held: ${state}`;
}
