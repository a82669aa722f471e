// The stream of one tracker to one gateway process.
/** The tracker's messages to one gateway, in order. It arrives when the run says so. */
export class SimStream {
  readonly #onEnd: () => void;
  readonly #encoder = new TextEncoder();
  #sent: string[] = [];
  #arrived = Promise.withResolvers<undefined>();
  #isOver = false;

  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
  }

  send(event: string, data: unknown): void {
    this.#sent.push(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  get isEmpty(): boolean {
    return this.#sent.length === 0;
  }

  /** Everything that was sent gets there. */
  arrive(): void {
    if (!this.isEmpty) this.#arrived.resolve(undefined);
  }

  end(): void {
    this.#onEnd();
    this.#isOver = true;
    this.#arrived.resolve(undefined);
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    for (;;) {
      await this.#arrived.promise;
      if (this.#isOver) return;
      this.#arrived = Promise.withResolvers();
      yield this.#encoder.encode(this.#sent.splice(0).join(""));
    }
  }
}
