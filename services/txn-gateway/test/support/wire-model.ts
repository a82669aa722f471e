// A session's model without sockets: the test acts as its client, its server and its gates.
import { WIRE_STATEMENTS } from "@highwater/store/internals";
import { int32, message, type Report } from "../../src/wire/frames/build.ts";
import { ClientLeg } from "../../src/wire/model/client-leg.ts";
import { type Gate, HoldQueue } from "../../src/wire/model/hold-queue.ts";
import { type OwnAttempt } from "../../src/wire/model/attempt.ts";
import { OwnMessages, type ReceiptValues } from "../../src/wire/model/own.ts";
import { type RecordedStatements } from "../../src/wire/model/recorder.ts";
import { ServerLeg } from "../../src/wire/model/server-leg.ts";
import { type Outside, SessionState } from "../../src/wire/model/state.ts";

export class ModelSession {
  /** Sent to the server and to the client, in order. */
  readonly toServer: Buffer[] = [];
  readonly toClient: Buffer[] = [];
  /** Gates that wait for a position. */
  readonly gates: Gate[] = [];
  /** Gates that wait for the outcome of the id's earlier transaction. */
  readonly explained: { readonly used: ReceiptValues; readonly gate: Gate }[] = [];
  /** What the session waits for on the read port. */
  readonly awaited: string[] = [];
  readonly attempts: (OwnAttempt & { readonly isWithdrawn: boolean })[] = [];
  readonly state: SessionState;
  readonly #client: ClientLeg;
  readonly #server: ServerLeg;

  constructor(place: { readonly isReader?: boolean; readonly isAtReplica?: boolean } = {}) {
    const outside: Outside = {
      toServer: (bytes) => this.toServer.push(bytes),
      wait: (gate) => {
        gate.decision = "waits";
        this.gates.push(gate);
      },
      explain: (used, gate) => this.explained.push({ used, gate }),
      warn: () => undefined,
      strictestLevel: () => "region",
      attempt: (ran) => this.#attempt(ran),
      admission: () => "now",
      await: (token) => this.awaited.push(token),
      promoted: () => undefined,
      broken: (reason) => {
        throw new Error(reason);
      },
    };
    this.state = new SessionState(new HoldQueue((bytes) => this.toClient.push(bytes)), {
      outside,
      own: new OwnMessages(WIRE_STATEMENTS),
      ...place,
    });
    this.state.isStale = false;
    this.state.doubts.read(this.state.settings, this.state.settings, false);
    this.#client = new ClientLeg(this.state);
    this.#server = new ServerLeg({
      state: this.state,
      levels: () => ["region"],
      onReady: () => {
        this.#client.ready();
      },
      onStatement: () => undefined,
    });
  }

  #attempt(ran: RecordedStatements | null): OwnAttempt {
    const attempt = {
      receipt: ["id", "tag", "epoch", "0"] as const,
      fault: null,
      isKept: ran !== null,
      written: () => undefined,
      isWithdrawn: false,
      withdraw: () => {
        attempt.isWithdrawn = true;
      },
    };
    this.attempts.push(attempt);
    return attempt;
  }

  /** The session's transactions get receipts from now on. */
  wantReceipts(): void {
    const { state } = this;
    state.settings = { ...state.settings, ack: "commit" };
    state.role = "app";
    state.probed = { role: "app", canWrite: true };
  }

  client(...frames: readonly Buffer[]): void {
    this.#client.push(Buffer.concat(frames));
  }

  server(...frames: readonly Buffer[]): void {
    this.#server.push(Buffer.concat(frames));
    this.#client.resume();
  }

  /** What it waited for has arrived, or will not: `refusal`. */
  arrived(refusal: Report | null = null): void {
    this.state.isAwaiting = false;
    this.state.refusal = refusal;
    this.#client.resume();
  }

  open(gate: Gate | undefined): void {
    if (gate === undefined) throw new Error("there is no such gate");
    this.state.client.open(gate);
  }

  /** The types of the messages to the client since the last call. */
  received(): string {
    return typesOf(this.toClient.splice(0));
  }

  /** The types of the messages to the server since the last call. */
  sent(): string {
    return typesOf(this.toServer.splice(0));
  }
}

function typesOf(chunks: readonly Buffer[]): string {
  const bytes = Buffer.concat(chunks);
  let types = "";
  for (let at = 0; at < bytes.length; at += 1 + bytes.readInt32BE(at + 1))
    types += String.fromCharCode(bytes[at] ?? 0);
  return types;
}

export const tag = (text: string): Buffer => message("C", `${text}\0`);
export const ready = (status: "I" | "T" | "E"): Buffer => message("Z", status);
export const failed = (sqlstate: string, severity: "ERROR" | "FATAL" = "ERROR"): Buffer =>
  message("E", `S${severity}\0V${severity}\0C${sqlstate}\0Mno\0\0`);
export const row = (bytes = 1): Buffer => message("D", Buffer.alloc(bytes));
export const ROW_DESCRIPTION = message("T", Buffer.alloc(2));
export const [PARSED, BOUND, CLOSED] = [message("1"), message("2"), message("3")];

/** A DataRow of texts. */
export function dataRow(...texts: readonly (string | null)[]): Buffer {
  const columns = texts.flatMap((text) =>
    text === null ? [int32(-1)] : [int32(Buffer.byteLength(text)), Buffer.from(text)],
  );
  const count = Buffer.alloc(2);
  count.writeInt16BE(texts.length);
  return message("D", count, ...columns);
}
