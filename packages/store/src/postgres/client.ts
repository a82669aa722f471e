// node-postgres' client for servers that may send anything. Its parser throws in the middle of a
// socket event at bytes that are not the protocol, or at messages out of order. No one could catch
// that, and the process would end. Here only the connection ends.
import { type EventEmitter } from "node:events";
import { type Socket } from "node:net";
import pg from "pg";
import { BufferReader } from "pg-protocol/dist/buffer-reader.js";
import { COCKROACH_REFUSAL } from "../cockroach/version.ts";
import { MessageLimits } from "./message-limits.ts";

// And an error without its last byte would be read for ever: behind the end of its buffer the
// parser finds empty texts, one after the other, and waits for one that is not.
const readText = Object.getOwnPropertyDescriptor(BufferReader.prototype, "string")?.value as (
  length: number,
) => string;
BufferReader.prototype.string = function (this: Bounded, length) {
  if (length > 0 && this.offset >= this.buffer.length) throw new RangeError("a message ends early");
  return readText.call(this, length);
};

/** What TypeScript takes for the reader's own. */
interface Bounded {
  readonly offset: number;
  readonly buffer: Buffer;
}

interface Parameter {
  readonly parameterName: string;
  readonly parameterValue: string;
}

interface Listening {
  readonly connection: EventEmitter & { attachListeners(stream: Socket): void };
  _getActiveQuery(): { mayTakeRow?(length: number): boolean } | null;
}

/** A server at a PostgreSQL address that says it is another store's, in its first messages. */
export class CockroachServerError extends Error {
  override readonly name = "CockroachServerError";

  constructor(version: string) {
    super(`This is a CockroachDB server (${version}). ${COCKROACH_REFUSAL}`);
  }
}

/** For `new pg.Pool` as well, as its option `Client`. */
export class PostgresClient extends pg.Client {
  protected readonly mayBeCockroach: boolean = false;

  constructor(config?: pg.ClientConfig) {
    super(config);
    const client = this as unknown as Listening;
    client.connection.on("parameterStatus", ({ parameterName: name, parameterValue: value }: Parameter) => {
      if (name === "crdb_version" && !this.mayBeCockroach) throw new CockroachServerError(value);
    });
    const attach = client.connection.attachListeners.bind(client.connection);
    client.connection.attachListeners = (stream) => {
      const before = new Set(stream.listeners("data"));
      attach(stream);
      for (const listener of stream.listeners("data"))
        if (!before.has(listener)) replace(client, stream, listener as (bytes: Buffer) => void);
    };
  }
}

function replace(client: Listening, stream: Socket, parse: (bytes: Buffer) => void): void {
  const limits = new MessageLimits({
    parse,
    mayTakeRow: (length) => client._getActiveQuery()?.mayTakeRow?.(length) ?? true,
  });
  stream.off("data", parse);
  stream.on("data", (bytes: Buffer) => {
    try {
      limits.push(bytes);
    } catch (cause) {
      // As if the connection had broken: every caller that waits for an answer gets an error.
      stream.destroy(cause instanceof Error ? cause : new Error(String(cause)));
    }
  });
}
