// The least that a program would write by hand: `fetch`, JSON, and for promises a map and the marks
// of the stream. No retries, no epochs, no failover. The cost of the SDK is measured against this.
import { decodeToken } from "@highwater/protocol";
import { newId } from "../gateway/http-client.ts";
import { ISOLATION, SELECT, UPDATE } from "../gateway/workload.ts";
import { PATHS } from "./protocol.ts";
import type { Client } from "./client.ts";

interface Waiting {
  readonly offset: bigint;
  readonly resolve: () => void;
  readonly timer: NodeJS.Timeout;
}

const TIMEOUT_MS = 60_000;

export class Bare implements Client {
  readonly #url: string;
  readonly #waiting = new Map<string, Waiting>();
  #connected: Promise<void> | null = null;

  constructor(url: string) {
    this.#url = url;
  }

  async commit(row: number): Promise<boolean> {
    const response = await fetch(`${this.#url}${PATHS.commit}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        id: newId(),
        statements: [
          { sql: UPDATE, params: [row] },
          { sql: SELECT, params: [row] },
        ],
        isolation: ISOLATION,
      }),
    });
    const answer = (await response.json()) as {
      code?: string;
      results: { fields: { name: string }[]; rows: string[][] }[];
    };
    if (answer.code === "serialization_failure") return false;
    if (!(Number(answer.results.at(-1)?.rows[0]?.[0]) >= 1)) throw new Error(JSON.stringify(answer));
    return true;
  }

  connect(): Promise<void> {
    return (this.#connected ??= new Promise((resolve, reject) => {
      this.#read(resolve).catch(reject);
    }));
  }

  async #read(onMark: () => void): Promise<void> {
    const { body } = await fetch(`${this.#url}${PATHS.stream}`);
    let text = "";
    for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const events = (text + part).split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) {
        if (!event.includes("\nevent: mark\n")) continue;
        const data = event.slice(event.indexOf("data: ") + 6);
        const { levels } = JSON.parse(data) as { levels: Readonly<Record<string, string>> };
        this.#advance(BigInt(levels["region"] ?? 0));
        onMark();
      }
    }
  }

  #advance(mark: bigint): void {
    for (const [token, { offset, resolve, timer }] of this.#waiting) {
      if (offset > mark) continue;
      this.#waiting.delete(token);
      clearTimeout(timer);
      resolve();
    }
  }

  durable(token: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const offset = decodeToken(token)?.offset ?? 0n;
      const timer = setTimeout(() => {
        reject(new Error("still pending"));
      }, TIMEOUT_MS);
      this.#waiting.set(token, { offset, resolve, timer });
    });
  }
}
