// The link between the primary and its replicas. It delays both directions alike, withholds one or
// both on demand, and records when it passed each acknowledgement to the primary.
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import type { Acknowledgements } from "./acknowledgements.ts";
import { hostMs, serveOrders } from "./helper.ts";
import { StandbyReplies } from "./standby-replies.ts";

export type Side = "primary" | "replica";

/** Above this the source has to wait, as in front of a full TCP window. */
const MAX_QUEUED_BYTES = 8 * 1024 * 1024;

const withheld: Record<Side, boolean> = { primary: false, replica: false };
const pipes = new Set<Pipe>();
const streaming = new Map<Socket, string>();
let server: Server | null = null;
let highest = 0;
let noted: { atMs: number[]; flushed: number[] } = { atMs: [], flushed: [] };

/** One direction of one connection. */
class Pipe {
  readonly #from: Socket;
  readonly #to: Socket;
  readonly towards: Side;
  readonly #delayMs: number;
  readonly #onDeliver: (part: Buffer) => void;
  #queue: { readonly dueMs: number; readonly part: Buffer }[] = [];
  #queuedBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  /** The number of queued chunks when the queue was fenced. */
  #fenced = 0;

  constructor(from: Socket, to: Socket, towards: Side, delayMs: number, onDeliver: (part: Buffer) => void) {
    this.#from = from;
    this.#to = to;
    this.towards = towards;
    this.#delayMs = delayMs;
    this.#onDeliver = onDeliver;
    from.on("data", (part) => {
      this.#queue.push({ dueMs: performance.now() + delayMs, part });
      this.#queuedBytes += part.length;
      if (this.#queuedBytes > MAX_QUEUED_BYTES) from.pause();
      if (this.#queue.length === 1) this.pump();
    });
  }

  pump(): void {
    clearTimeout(this.#timer);
    if (withheld[this.towards] || this.#to.destroyed) return;
    const nowMs = performance.now();
    const due = this.#delayMs === 0 ? -1 : this.#queue.findIndex(({ dueMs }) => dueMs > nowMs);
    this.#deliver(due === -1 ? this.#queue.length : due);
    const [next] = this.#queue;
    if (next !== undefined) this.#timer = setTimeout(() => this.pump(), Math.max(1, next.dueMs - nowMs));
  }

  fence(): void {
    this.#fenced = this.#queue.length;
  }

  deliverFenced(): void {
    this.#deliver(this.#fenced);
    this.#fenced = 0;
  }

  #deliver(count: number): void {
    for (const { part } of this.#queue.slice(0, count)) {
      this.#queuedBytes -= part.length;
      this.#onDeliver(part);
      this.#to.write(part);
    }
    if (count > 0) this.#queue = this.#queue.slice(count);
    if (this.#queuedBytes < MAX_QUEUED_BYTES / 2) this.#from.resume();
  }
}

function note(flushed: number): void {
  if (flushed <= highest) return;
  highest = flushed;
  noted.atMs.push(hostMs());
  noted.flushed.push(flushed);
}

function accept(replica: Socket, target: { port: number; delayMs: number }): void {
  const primary = connect({ host: "127.0.0.1", port: target.port, noDelay: true });
  const replies = new StandbyReplies();
  const toPrimary = new Pipe(replica, primary, "primary", target.delayMs, (part) => {
    for (const flushed of replies.push(part)) {
      streaming.set(replica, replies.applicationName);
      note(flushed);
    }
  });
  const toReplica = new Pipe(primary, replica, "replica", target.delayMs, () => undefined);
  pipes.add(toPrimary).add(toReplica);
  const end = (): void => {
    streaming.delete(replica);
    pipes.delete(toPrimary);
    pipes.delete(toReplica);
    replica.destroy();
    primary.destroy();
  };
  for (const socket of [replica, primary]) socket.on("close", end).on("error", end);
}

const orders = {
  /** Resolves with the port at which the primary is reached from now on. */
  listen: async (target: { port: number; delayMs: number }): Promise<number> => {
    const listening = createServer({ noDelay: true }, (socket) => {
      accept(socket, target);
    });
    server = listening;
    await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  },
  /** Names of the replicas that stream through here. */
  streaming: (): string[] => [...new Set(streaming.values())].sort(),
  withhold: (towards: Readonly<Partial<Record<Side, boolean>>>): void => {
    Object.assign(withheld, towards);
    for (const pipe of pipes) pipe.pump();
  },
  /**
   * Bytes that are withheld from this side now can be delivered separately: later ones stay
   * withheld.
   */
  fence: (towards: Side): void => {
    for (const pipe of pipes) if (pipe.towards === towards) pipe.fence();
  },
  deliverFenced: (towards: Side): void => {
    for (const pipe of pipes) if (pipe.towards === towards) pipe.deliverFenced();
  },
  /** The acknowledgements since the last call. */
  take: (): Acknowledgements => {
    const taken = noted;
    noted = { atMs: [], flushed: [] };
    return taken;
  },
};
export type RelayOrders = typeof orders;

serveOrders(orders);
