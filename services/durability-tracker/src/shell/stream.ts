// The SSE stream of marks and epochs. It sends state: a client that connects, to any tracker, first
// gets the current state, so a resumed stream misses nothing that still matters.
import { type ServerResponse } from "node:http";
import { type EpochId, type ExposureReport, type Marks, type StallEvent, ofOwner } from "@highwater/protocol";
import { currentRecord, exposure, type TrackerState } from "../core/index.ts";
import { type Subscriber } from "./reports.ts";

/** A client that does not read is disconnected. It comes back and gets the newest state. */
const MAX_BUFFERED_BYTES = 1024 * 1024;
/** Ancestors that a client may still hold tokens of. */
const MAX_EPOCHS = 64;

/** A connected client, and what it receives besides marks, epochs and stalls. */
export interface Viewer {
  /** Id of the principal. */
  readonly id: string;
  /**
   * Whether it receives the exposure, a few times a second. Gateways and dashboards want it;
   * thousands of clients do not.
   */
  readonly wantsExposure: boolean;
  /** Only services receive the exposure of other owners. */
  readonly seesOwners: boolean;
}

export class MarkStream implements Subscriber {
  readonly #clients = new Map<ServerResponse, Viewer>();
  #sequence = 0;
  #exposure = "";
  #isBlind = false;

  get size(): number {
    return this.#clients.size;
  }

  /** Returns the number of streams of a principal. */
  countOf(id: string): number {
    let count = 0;
    for (const viewer of this.#clients.values()) if (viewer.id === id) count++;
    return count;
  }

  add(response: ServerResponse, state: TrackerState, viewer: Viewer): void {
    response.writeHead(200, {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    });
    response.socket?.setNoDelay(true);
    let hello = ": connected\n\n";
    // This comes first: a client that knows another tracker need not read on.
    if (this.#isBlind) hello += this.#blind(state);
    if (state.topology.ancestry.length > 0) hello += this.#epochs(state);
    const marks = currentMarks(state);
    if (marks !== null) hello += this.#event(marks.seq, "mark", marks);
    const risk = viewer.wantsExposure ? exposureReport(state) : null;
    if (risk !== null) {
      const seen = viewer.seesOwners ? risk : ofOwner(risk, null);
      hello += this.#event(currentRecord(state)?.seq ?? 0, "exposure", seen);
    }
    response.write(hello);
    this.#clients.set(response, viewer);
    response.on("close", () => {
      this.#clients.delete(response);
    });
    response.on("error", () => {
      this.#clients.delete(response);
    });
  }

  onMarks(state: TrackerState): void {
    const marks = currentMarks(state);
    if (marks !== null) this.#send(this.#event(marks.seq, "mark", marks));
  }

  onEpochs(state: TrackerState): void {
    this.#send(this.#epochs(state));
  }

  onStall(stall: StallEvent, isStalled: boolean, state: TrackerState): void {
    const seq = currentRecord(state)?.seq ?? 0;
    this.#send(this.#event(seq, isStalled ? "stalled" : "recovered", stall));
  }

  onBlind(isBlind: boolean, state: TrackerState): void {
    this.#isBlind = isBlind;
    this.#send(this.#blind(state));
  }

  /** Sends what is at risk now, if that differs from the last report. */
  publishExposure(state: TrackerState): void {
    const listeners = [...this.#clients].filter(([, { wantsExposure }]) => wantsExposure);
    const report = listeners.length === 0 ? null : exposureReport(state);
    const text = JSON.stringify(report);
    if (report === null || text === this.#exposure) return;
    this.#exposure = text;
    const seq = currentRecord(state)?.seq ?? 0;
    const all = this.#event(seq, "exposure", report);
    const withoutOwners = this.#event(seq, "exposure", ofOwner(report, null));
    for (const [client, { seesOwners }] of listeners) write(client, seesOwners ? all : withoutOwners);
  }

  heartbeat(): void {
    this.#send(": alive\n\n");
  }

  /**
   * Ends the streams of a tracker that stays blind: a client that does not know the event may reach
   * another one.
   */
  closeIfBlind(): void {
    if (this.#isBlind) this.close();
  }

  close(): void {
    for (const client of this.#clients.keys()) client.end();
    this.#clients.clear();
  }

  #blind(state: TrackerState): string {
    return this.#event(currentRecord(state)?.seq ?? 0, "blind", { blind: this.#isBlind });
  }

  #epochs(state: TrackerState): string {
    const epochs = state.topology.ancestry.slice(-MAX_EPOCHS);
    return this.#event(epochs.at(-1)?.seq ?? 0, "epoch", { epochs });
  }

  /** Ids are `{epoch seq}.{n}`: the newest epoch that a client has seen, on whichever tracker. */
  #event(seq: number, event: string, data: unknown): string {
    return `id: ${String(seq)}.${String(++this.#sequence)}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
  }

  /**
   * Sends the same bytes to all clients, framed and encoded once: with thousands of clients, each
   * costs only the write.
   */
  #send(text: string): void {
    const chunk = Buffer.from(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
    for (const client of this.#clients.keys()) {
      // HTTP/1.0 has no chunks, and bytes that are still held back must go first.
      const { socket } = client;
      if (socket === null || !client.chunkedEncoding || client.writableCorked > 0) write(client, text);
      else {
        socket.write(chunk);
        if (socket.writableLength > MAX_BUFFERED_BYTES) client.destroy();
      }
    }
  }
}

function write(client: ServerResponse, text: string): void {
  client.write(text);
  if (client.writableLength > MAX_BUFFERED_BYTES) client.destroy();
}

/** Returns the marks of the current epoch in wire format, or null if none was ever observed. */
export function currentMarks(state: TrackerState): Marks | null {
  const current = currentRecord(state);
  if (current === undefined) return null;
  const marks = state.topology.marks.get(current.id as EpochId) ?? new Map<string, bigint>();
  const levels = Object.fromEntries([...marks].map(([level, offset]) => [level, offset.toString()]));
  return { epoch: current.id, seq: current.seq, levels };
}

/** Returns what is at risk now in wire format, or null before any epoch is known. */
export function exposureReport(state: TrackerState): ExposureReport | null {
  const { epoch, bytes, ...rest } = exposure(state);
  return epoch === null ? null : { ...rest, epoch, bytes: bytes.toString() };
}
