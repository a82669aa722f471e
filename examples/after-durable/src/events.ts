// A tracker's stream of events, as anybody can read it.

export interface DurabilityEvent {
  readonly type: string;
  readonly data: { readonly id?: string };
}

/** Ends or throws when the connection does. */
export async function* listen(url: string, signal: AbortSignal): AsyncGenerator<DurabilityEvent> {
  const response = await fetch(url, { headers: { accept: "text/event-stream" }, signal });
  if (!response.ok || response.body === null)
    throw new Error(`the tracker answers ${String(response.status)}`);
  let text = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const blocks = (text + chunk).split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const type = /^event: (.*)$/m.exec(block)?.[1];
      const data = /^data: (.*)$/m.exec(block)?.[1];
      // The data of an event hold the event; those of `begin` say where the stream begins.
      if (type === "begin") yield { type, data: {} };
      else if (data !== undefined) yield JSON.parse(data) as DurabilityEvent;
    }
  }
}
