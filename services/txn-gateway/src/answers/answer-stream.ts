// Sends answers to a client at the pace at which it reads: one large answer, or the lines of a
// batch. A client that does not read is disconnected, which frees the memory of its results.
import { Readable } from "node:stream";
import { type FastifyReply } from "fastify";
import { type Clock } from "@highwater/runtime";
import { jsonPieces, PIECE_CHARS } from "./json-pieces.ts";
import { type ResultHold } from "./result-memory.ts";

/** Answers of at most so much are written in one go; the socket keeps them. */
const WHOLE_BYTES = 128 * 1_024;

export interface Pace {
  readonly clock: Clock;
  /** A client that reads nothing for so long is cut off. */
  readonly stallMs: number;
}

interface Source {
  readonly pieces: Iterator<string, void>;
  readonly hold: ResultHold | null;
}

export class AnswerStream {
  readonly readable: Readable;
  readonly #pace: Pace;
  readonly #sources: Source[] = [];
  #isWanted = false;
  #hasAll = false;
  #isScheduled = false;
  #stopWatching: (() => void) | null = null;

  constructor(pace: Pace) {
    this.#pace = pace;
    this.readable = new Readable({
      highWaterMark: PIECE_CHARS,
      read: () => {
        this.#isWanted = true;
        this.#watch(false);
        this.#pump();
      },
      destroy: (cause, done) => {
        this.#watch(false);
        for (const { hold } of this.#sources.splice(0)) hold?.release();
        done(cause);
      },
    });
  }

  /** Takes over the hold. The output of one turn of the event loop leaves in one piece. */
  add(value: unknown, hold: ResultHold | null, end = ""): void {
    if (this.readable.destroyed) {
      hold?.release();
      return;
    }
    this.#sources.push({ pieces: withEnd(value, end), hold });
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#pump();
    });
  }

  /** Nothing more will be added. */
  finish(): void {
    this.#hasAll = true;
  }

  #pump(): void {
    if (this.readable.destroyed || this.readable.readableEnded) return;
    let text = "";
    while (this.#isWanted) {
      const [source] = this.#sources;
      if (source === undefined) break;
      const next = source.pieces.next();
      if (next.done === true) {
        this.#sources.shift();
        source.hold?.release();
        continue;
      }
      text += next.value;
      if (text.length < PIECE_CHARS) continue;
      this.#isWanted = this.readable.push(text);
      text = "";
    }
    if (text !== "") this.#isWanted = this.readable.push(text);
    if (this.#sources.length > 0) this.#watch(true);
    else if (this.#hasAll) {
      this.#hasAll = false;
      this.readable.push(null);
    }
  }

  /** Something waits to be read. */
  #watch(waits: boolean): void {
    if (!waits) {
      this.#stopWatching?.();
      this.#stopWatching = null;
    } else
      this.#stopWatching ??= this.#pace.clock.after(this.#pace.stallMs, () => {
        this.readable.destroy(new Error(`the client has read nothing for ${String(this.#pace.stallMs)} ms`));
      });
  }
}

function* withEnd(value: unknown, end: string): Generator<string, void> {
  yield* jsonPieces(value);
  if (end !== "") yield end;
}

/** Sends a body with results; takes over the hold. */
export function sendHeld(
  reply: FastifyReply,
  { body, hold }: { readonly body: unknown; readonly hold: ResultHold | null },
  pace: Pace,
): FastifyReply {
  if (hold === null || hold.bytes <= WHOLE_BYTES) {
    hold?.release();
    return reply.send(body);
  }
  const stream = new AnswerStream(pace);
  stream.add(body, hold);
  stream.finish();
  return reply.header("content-type", "application/json; charset=utf-8").send(stream.readable);
}
