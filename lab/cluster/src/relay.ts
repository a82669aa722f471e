// TCP relays: every byte between two locations passes through one and takes the link's time. Owns
// sockets, order, backpressure and due times; the link (link.ts) decides on delays and cuts. The
// TCP handshake is not delayed: a new connection costs no round trip, only the data on it does.

import net from "node:net";
import type { Link, Path } from "./link.ts";

/** Above this the source is paused, as by a full TCP window, until half of it is delivered. */
const queuedBytesMax = 8 * 1024 * 1024;

/**
 * Timers of the event loop have whole milliseconds and may be late by one. So the last part of a
 * delay is polled with setImmediate: short enough that a steady stream of messages costs little
 * processor time.
 */
const pollBelowMs = 0.3;

type Item = { dueMs: number } & (
  | { kind: "data"; chunk: Buffer }
  | { kind: "end"; chunk?: never }
  | { kind: "abort"; chunk?: never }
);

/** One direction of one connection: a queue with due times between two sockets. */
class Pipe {
  readonly #source: net.Socket;
  readonly #target: net.Socket;
  readonly #path: Path;
  #queue: Item[] = [];
  #head = 0;
  #queuedBytes = 0;
  #lastDueMs = 0;
  #sourceEnded = false;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  readonly #pump = (): void => this.pump();

  constructor(source: net.Socket, target: net.Socket, path: Path) {
    this.#source = source;
    this.#target = target;
    this.#path = path;
    path.onOpen.add(this.#pump);
    source.on("data", (chunk: Buffer) => {
      this.#queuedBytes += chunk.length;
      this.#push({ kind: "data", chunk, dueMs: this.#due() });
      if (this.#queuedBytes > queuedBytesMax) source.pause();
    });
    source.on("end", () => {
      this.#sourceEnded = true;
      this.#push({ kind: "end", dueMs: this.#due() });
    });
    source.on("close", (hadError) => {
      if (!this.#sourceEnded || hadError) this.#push({ kind: "abort", dueMs: this.#due() });
    });
    target.on("drain", this.#pump);
    target.on("close", () => this.#discard());
  }

  /** Delivers everything that is due, and sleeps until the next item is due. */
  pump(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    while (this.#head < this.#queue.length) {
      if (this.#path.blocked || this.#target.destroyed || this.#target.writableNeedDrain) return;
      const item = this.#queue[this.#head] as Item;
      const remainingMs = Math.max(item.dueMs, this.#path.notBeforeMs) - performance.now();
      if (remainingMs > 0) return this.#sleep(remainingMs);
      this.#head++;
      this.#deliver(item);
    }
    this.#queue = [];
    this.#head = 0;
  }

  close(): void {
    this.#path.onOpen.delete(this.#pump);
    this.#discard();
  }

  #deliver(item: Item): void {
    if (this.#head > 1024) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
    switch (item.kind) {
      case "data":
        this.#queuedBytes -= item.chunk.length;
        this.#target.write(item.chunk);
        if (this.#source.isPaused() && this.#queuedBytes < queuedBytesMax / 2) this.#source.resume();
        break;
      case "end":
        this.#target.end();
        break;
      case "abort":
        abort(this.#target);
        break;
    }
  }

  #due(): number {
    // Never before earlier bytes: a link that becomes faster does not reorder a stream.
    this.#lastDueMs = Math.max(this.#lastDueMs, performance.now() + this.#path.delayMs);
    return this.#lastDueMs;
  }

  #push(item: Item): void {
    if (this.#target.destroyed) {
      this.#queuedBytes = 0;
      return;
    }
    this.#queue.push(item);
    if (this.#queue.length - this.#head === 1) this.pump();
  }

  #sleep(remainingMs: number): void {
    if (remainingMs <= pollBelowMs) this.#immediate = setImmediate(this.#pump);
    else this.#timer = setTimeout(this.#pump, Math.max(1, Math.floor(remainingMs - pollBelowMs)));
  }

  #discard(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    this.#queue = [];
    this.#head = 0;
    this.#queuedBytes = 0;
    if (!this.#source.destroyed) this.#source.resume();
  }
}

/** One client connection and its counterpart at the target. */
class Connection {
  readonly #client: net.Socket;
  readonly #upstream = new net.Socket({ allowHalfOpen: true });
  readonly #forward: Pipe;
  readonly #backward: Pipe;
  readonly #path: Path;
  readonly #connect: () => void;

  constructor(client: net.Socket, options: RelayOptions, onClose: (connection: Connection) => void) {
    this.#client = client;
    this.#path = options.link.path(options.from);
    let isConnected = false;
    // A connection request over a black hole reaches its target only when the link heals.
    this.#connect = () => {
      this.#path.onOpen.delete(this.#connect);
      if (client.destroyed) return;
      const { host, localAddress } = options;
      const from = localAddress === undefined ? {} : { localAddress };
      this.#upstream.setNoDelay(true).connect({ host, port: options.port(), ...from });
    };
    let openSockets = 2;
    const closed = (): void => {
      openSockets -= 1;
      if (openSockets > 0) return;
      this.#forward.close();
      this.#backward.close();
      onClose(this);
    };
    client.on("error", ignore).on("close", () => {
      closed();
      // Nothing was sent to the target, so it need not learn of the end.
      if (!isConnected && !this.#upstream.connecting) this.#upstream.destroy();
    });
    // A client that closes before its connection request could arrive withdraws what it has sent.
    client.on("end", () => {
      if (!isConnected && !this.#upstream.connecting) abort(client);
    });
    this.#upstream
      .on("error", ignore)
      .on("connect", () => (isConnected = true))
      .on("close", () => {
        if (!isConnected) abort(client);
        closed();
      });
    if (this.#path.blocked) this.#path.onOpen.add(this.#connect);
    // Comes after the line above, so that when the path opens the connection is made before stalled
    // bytes are sent.
    this.#forward = new Pipe(client, this.#upstream, this.#path);
    this.#backward = new Pipe(this.#upstream, client, options.link.path(options.to));
    if (!this.#path.blocked) this.#connect();
  }

  destroy(): void {
    this.#path.onOpen.delete(this.#connect);
    abort(this.#client);
    abort(this.#upstream);
  }
}

export interface RelayOptions {
  from: string;
  to: string;
  link: Link;
  host: string;
  /**
   * Called for every connection, because a server may still change its port while its cluster is
   * launched.
   */
  port: () => number;
  listenPort?: number | undefined;
  localAddress?: string | undefined;
}

/** Listens where `from` is and forwards to a target where `to` is. */
export class Relay {
  readonly #options: RelayOptions;
  readonly #connections = new Set<Connection>();
  readonly #server: net.Server;
  readonly #reset = (): void => this.#destroyConnections();

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#server = net.createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#accept(client));
    options.link.onReset.add(this.#reset);
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(this.#options.listenPort ?? 0, "127.0.0.1", () => {
        this.#server.off("error", reject);
        resolve();
      });
    });
    return (this.#server.address() as net.AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#options.link.onReset.delete(this.#reset);
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#destroyConnections();
    await closed;
  }

  #accept(client: net.Socket): void {
    // Keeps listening during a reset cut, because another process could take the port.
    if (this.#options.link.refusing) {
      client.on("error", ignore);
      abort(client);
      return;
    }
    this.#connections.add(
      new Connection(client, this.#options, (connection) => this.#connections.delete(connection)),
    );
  }

  #destroyConnections(): void {
    for (const connection of [...this.#connections]) connection.destroy();
  }
}

function abort(socket: net.Socket): void {
  if (!socket.destroyed) socket.resetAndDestroy();
}

function ignore(): void {
  // A socket's close always follows its error, and the close is relayed.
}
