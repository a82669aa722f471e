// A clock that only the test moves, a log that remembers, and a transport whose every answer the test gives.
import { randomBytes } from "node:crypto";
import { makeUuidV7, type Marks, type TxnId } from "@highwater/protocol";
import { type HttpReply, type HttpStream, type ServiceTransport } from "../../src/deps.ts";

export { FakeClock, settle } from "@highwater/runtime/testing";
export { MemoryLog } from "@highwater/service/testing";

export interface Sent {
  readonly url: string;
  readonly body: { gateway: string; announcements: { kind: string; id: string; offset?: string }[] };
  answer(status: number, body?: string): void;
  fail(): void;
}

/** Records what is posted; nothing is answered until the test does. */
export class ScriptedTransport implements ServiceTransport {
  readonly sent: Sent[] = [];

  post(url: string, body: string): Promise<HttpReply> {
    return new Promise((resolve, reject) => {
      this.sent.push({
        url,
        body: JSON.parse(body) as Sent["body"],
        answer: (status, text = "") => {
          resolve({ status, body: text });
        },
        fail: () => {
          reject(new Error("connection refused"));
        },
      });
    });
  }

  open(): Promise<HttpStream> {
    return Promise.reject(new Error("this transport has no streams"));
  }

  close(): void {
    // Nothing is open.
  }

  to(url: string): Sent[] {
    return this.sent.filter((sent) => sent.url.startsWith(url));
  }
}

export function newId(atMs = Date.now()): TxnId {
  return makeUuidV7(atMs, randomBytes(10));
}

export const EPOCH_A = "00000000-0000-4000-8000-00000000000a";
export const EPOCH_B = "00000000-0000-4000-8000-00000000000b";

export function marksOf(epoch: string, levels: Record<string, string>, seq = 1): Marks {
  return { epoch, seq, levels };
}
