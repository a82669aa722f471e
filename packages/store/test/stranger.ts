// A program that reads the log as a replica does and is none: what pg_receivewal does, or worse.
import { type EventEmitter } from "node:events";
import pg from "pg";

const POSTGRES_EPOCH_MS = 946_684_800_000;

interface Wire extends EventEmitter {
  sendCopyFromChunk(chunk: Buffer): void;
  query(text: string): void;
}

export interface StrangerOptions {
  readonly url: string;
  readonly applicationName: string;
  readonly slot?: string;
  readonly startAt: string;
  /** What it says it has on disk, and what it says it has replayed; no server says 0 of the latter. */
  readonly flushed: bigint;
  readonly replayed: bigint;
}

/** Resolves when it has said so. */
export async function startStranger(options: StrangerOptions): Promise<{ stop(): void }> {
  const { url, applicationName, slot, startAt, flushed, replayed } = options;
  const config = { connectionString: url, application_name: applicationName, replication: "true" };
  const client = new pg.Client(config);
  client.on("error", () => undefined);
  await client.connect();
  const wire = (client as unknown as { connection: Wire & { stream: { destroy(): void } } }).connection;
  const streaming = new Promise<void>((resolve, reject) => {
    wire.once("replicationStart", resolve);
    wire.once("errorMessage", reject);
  });
  wire.query(`START_REPLICATION ${slot === undefined ? "" : `SLOT ${slot} `}PHYSICAL ${startAt}`);
  await streaming;
  wire.sendCopyFromChunk(statusUpdate(flushed, replayed));
  const timer = setInterval(() => {
    wire.sendCopyFromChunk(statusUpdate(flushed, replayed));
  }, 200);
  return {
    stop: () => {
      clearInterval(timer);
      wire.stream.destroy();
    },
  };
}

function statusUpdate(flushed: bigint, replayed: bigint): Buffer {
  const message = Buffer.alloc(34);
  message.write("r", 0, "latin1");
  message.writeBigUInt64BE(flushed, 1);
  message.writeBigUInt64BE(flushed, 9);
  message.writeBigUInt64BE(replayed, 17);
  message.writeBigInt64BE(BigInt(Date.now() - POSTGRES_EPOCH_MS) * 1_000n, 25);
  return message;
}
