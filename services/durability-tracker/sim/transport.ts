// The way from one gateway process to the trackers: posts that are late, lost or repeated, and streams that end with either side.
import { type Announcement, type EpochId, type Offset, type TxnId } from "@highwater/protocol";
import { type HttpReply, type HttpStream, type ServiceTransport } from "@highwater/txn-gateway/embedded";
import { type AnnouncedItem } from "../src/core/index.ts";
import { type SimClock } from "./clock.ts";
import { SimStream } from "./stream.ts";
import { type Message, type SimTracker } from "./tracker.ts";

export interface SimTransportContext {
  readonly clock: SimClock;
  readonly gateway: number;
  readonly trackers: () => readonly SimTracker[];
  /** Sends the message on its way. */
  readonly transmit: (tracker: SimTracker, message: Message) => void;
}

const SCHEME = "http://tracker-";

export const urlOf = (tracker: number): string => `${SCHEME}${String(tracker)}`;

export class SimTransport implements ServiceTransport {
  readonly #parts: SimTransportContext;
  /** The attempts that it has announced, or tried to. */
  readonly announced = new Set<string>();
  readonly #streams = new Set<SimStream>();
  #isOver = false;

  constructor(parts: SimTransportContext) {
    this.#parts = parts;
  }

  /** Only announcements have an answer here: questions about verdicts are judged by the core in every step anyway. */
  post(url: string, body: string, timeoutMs: number): Promise<HttpReply> {
    if (this.#isOver) return new Promise(() => undefined);
    const [tracker, path] = this.#find(url);
    if (path !== "/internal/announcements") return Promise.reject(new Error(`${url} does not answer`));
    const { clock, gateway, transmit } = this.#parts;
    const batch = JSON.parse(body) as {
      parents: Record<EpochId, EpochId>;
      announcements: Announcement[];
    };
    for (const one of batch.announcements) if (one.kind === "intent") this.announced.add(one.by);
    return new Promise((resolve, reject) => {
      const cancel = clock.after(timeoutMs, () => {
        reject(new Error(`${tracker.name} has not answered in time`));
      });
      transmit(tracker, {
        kind: "announcements",
        gateway,
        parents: batch.parents,
        items: batch.announcements.map(itemOf),
        answer: (isWritten) => {
          cancel();
          if (isWritten) resolve({ status: 204, body: "" });
          else reject(new Error(`${tracker.name} has ended the connection`));
        },
      });
    });
  }

  open(url: string, _headers: unknown, signal: AbortSignal): Promise<HttpStream> {
    const [tracker] = this.#find(url);
    const stream = new SimStream(() => {
      tracker.streams.delete(stream);
      this.#streams.delete(stream);
    });
    this.#streams.add(stream);
    signal.addEventListener("abort", () => {
      stream.end();
    });
    tracker.follow(stream);
    return Promise.resolve({ status: 200, chunks: stream.chunks() });
  }

  /** The process is gone: it says nothing more. */
  close(): void {
    this.#isOver = true;
    for (const stream of this.#streams) stream.end();
  }

  #find(url: string): [tracker: SimTracker, path: string] {
    const { pathname, host } = new URL(url);
    const tracker = this.#parts.trackers()[Number(host.slice(SCHEME.length - "http://".length))];
    if (tracker === undefined) throw new Error(`there is no ${url}`);
    return [tracker, pathname];
  }
}

function itemOf(item: Announcement): AnnouncedItem {
  const { owner = "0", ...rest } = item;
  const base = { ...rest, id: item.id as TxnId, epoch: item.epoch as EpochId, owner: BigInt(owner) };
  return (
    item.kind === "position" ? { ...base, offset: BigInt(item.offset) as Offset } : base
  ) as AnnouncedItem;
}
