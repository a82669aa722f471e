// Thousands of clients of the durability stream, each with a connection of its own, as cheaply as
// they can be had: what they cost is taken from the same cores as what is measured. They note when
// each of them received which event, and no more.
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { hostMs, serveOrders } from "./helper.ts";
import { eventsIn } from "./stream-events.ts";

/** Of the process, besides the streams. */
const OTHER_FILES = 100;
const OPEN_AT_ONCE = 100;
const CHUNK_BYTES = 64 * 1024;

/** Receipts of marks, in parallel arrays, in the order in which they came. */
export interface Receipts {
  readonly streams: Uint16Array;
  /** Numbers of the events, as in their ids. */
  readonly events: Uint32Array;
  readonly atMs: Float64Array;
  /** For each event, the marks that it carried. */
  readonly marks: ReadonlyMap<number, Readonly<Record<string, string>>>;
}

interface Stream {
  readonly socket: Socket;
  /** The end of an event that came in two parts. */
  rest: string;
}

const streams: Stream[] = [];
let streamOf: number[] = [];
let eventOf: number[] = [];
let receivedMs: number[] = [];
let marks = new Map<number, Readonly<Record<string, string>>>();
let ended = 0;

function take(at: number, stream: Stream, bytes: number, buffer: Uint8Array): void {
  const nowMs = hostMs();
  const text = stream.rest + Buffer.from(buffer.buffer, buffer.byteOffset, bytes).toString("latin1");
  const { events, rest } = eventsIn(text);
  stream.rest = rest;
  for (const event of events) {
    if (!marks.has(event.number)) marks.set(event.number, event.levels());
    streamOf.push(at);
    eventOf.push(event.number);
    receivedMs.push(nowMs);
  }
}

async function openOne(url: URL, at: number): Promise<Stream> {
  return new Promise((resolve, reject) => {
    const buffer = Buffer.alloc(CHUNK_BYTES);
    let opened = false;
    const socket = connect({
      host: url.hostname,
      port: Number(url.port),
      noDelay: true,
      onread: {
        buffer,
        callback: (bytes, part) => {
          take(at, stream, bytes, part);
          if (!opened) resolve(stream);
          opened = true;
          return true;
        },
      },
    });
    const stream: Stream = { socket, rest: "" };
    socket.on("error", reject);
    socket.on("close", () => {
      ended++;
      reject(new Error("the tracker closed a stream"));
    });
    socket.write(
      `GET /v1/durability/stream HTTP/1.1\r\nhost: ${url.host}\r\naccept: text/event-stream\r\n\r\n`,
    );
  });
}

/** Node raises its own limit as far as the system lets it. */
function checkLimit(count: number): void {
  const limit = /^Max open files\s+(\d+)/m.exec(readLimits())?.[1];
  if (limit !== undefined && Number(limit) < count + OTHER_FILES)
    throw new Error(
      `${String(count)} streams need a limit of ${String(count + OTHER_FILES)} open files, and it is ${limit}: raise it (ulimit -Hn)`,
    );
}

function readLimits(): string {
  try {
    return readFileSync("/proc/self/limits", "latin1");
  } catch {
    return "";
  }
}

const orders = {
  open: async ({ tracker, count }: { tracker: string; count: number }): Promise<void> => {
    checkLimit(count);
    const url = new URL(tracker);
    for (let from = 0; from < count; from += OPEN_AT_ONCE) {
      const some = Array.from({ length: Math.min(OPEN_AT_ONCE, count - from) }, (_, at) => from + at);
      streams.push(...(await Promise.all(some.map((at) => openOne(url, at)))));
    }
    ended = 0;
  },
  /**
   * Whether every stream has received a mark at or above the offset since `take` was called last.
   */
  haveReceived: ({ level, offset }: { level: string; offset: number }): boolean => {
    const received = new Set<number>();
    for (const [at, stream] of streamOf.entries())
      if (Number(marks.get(eventOf[at] ?? 0)?.[level] ?? 0) >= offset) received.add(stream);
    return received.size === streams.length;
  },
  /** What was received since the last time. */
  take: (): Receipts => {
    const taken = {
      streams: Uint16Array.from(streamOf),
      events: Uint32Array.from(eventOf),
      atMs: Float64Array.from(receivedMs),
      marks,
    };
    if (ended > 0) throw new Error(`the tracker closed ${String(ended)} streams`);
    streamOf = [];
    eventOf = [];
    receivedMs = [];
    marks = new Map();
    return taken;
  },
  close: (): void => {
    for (const { socket } of streams.splice(0)) socket.removeAllListeners("close").destroy();
  },
};
export type StreamOrders = typeof orders;

serveOrders(orders);
