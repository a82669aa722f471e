// For tests: an SSE client that remembers events and can wait for one.
import assert from "node:assert/strict";

export interface ReceivedEvent {
  readonly id: string | null;
  readonly event: string;
  readonly data: unknown;
}

const LIMIT_MS = 60_000;

export class SseClient implements AsyncDisposable {
  readonly status: number;
  readonly received: ReceivedEvent[] = [];
  /** Comments and events alike. */
  blocks = 0;
  isOver = false;
  readonly #abort: AbortController;
  readonly #reading: Promise<void>;
  #changed = Promise.withResolvers<undefined>();

  private constructor(response: Response, abort: AbortController) {
    this.status = response.status;
    this.#abort = abort;
    this.#reading = this.#read(response).catch(() => undefined);
    void this.#reading.then(() => {
      this.isOver = true;
      this.#changed.resolve(undefined);
    });
  }

  static async open(url: string, headers: Readonly<Record<string, string>> = {}): Promise<SseClient> {
    const abort = new AbortController();
    const response = await fetch(url, { headers, signal: abort.signal });
    if (response.status !== 200) assert.fail(`${String(response.status)}: ${await response.text()}`);
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    return new SseClient(response, abort);
  }

  async #read(response: Response): Promise<void> {
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        this.#take(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
  }

  #take(block: string): void {
    const fields = new Map(
      block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
    );
    this.blocks++;
    const data = fields.get("data");
    if (data !== undefined)
      this.received.push({
        id: fields.get("id") ?? null,
        event: fields.get("event") ?? "message",
        data: JSON.parse(data) as unknown,
      });
    const changed = this.#changed;
    this.#changed = Promise.withResolvers();
    changed.resolve(undefined);
  }

  /** All but the first, which says where it begins. */
  get published(): ReceivedEvent[] {
    return this.received.filter(({ event }) => event !== "begin");
  }

  get ids(): (string | null)[] {
    return this.published.map(({ id }) => id);
  }

  get lastId(): string {
    return this.received.findLast(({ id }) => id !== null)?.id ?? assert.fail("nothing was received");
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    const timer = setTimeout(() => {
      this.#abort.abort();
    }, LIMIT_MS);
    while (!holds()) {
      if (this.isOver)
        assert.fail(
          `the stream is over, and not: ${what}; received ${JSON.stringify(this.received).slice(-500)}`,
        );
      await this.#changed.promise;
    }
    clearTimeout(timer);
  }

  begun(): Promise<void> {
    return this.until("it has begun", () => this.received.length > 0);
  }

  async ended(): Promise<void> {
    await this.#reading;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#abort.abort();
    await this.#reading;
  }
}
