// The TypeScript SDK as a subject of the benchmark.
import { Highwater, HighwaterError, sql } from "@highwater/sdk";
import { ISOLATION } from "../gateway/workload.ts";
import type { Client } from "./client.ts";

const TIMEOUT_MS = 60_000;

export class Sdk implements Client {
  readonly #hw: Highwater;

  constructor(url: string, shareRequests: boolean) {
    this.#hw = new Highwater({ url, shareRequests });
  }

  async commit(row: number): Promise<boolean> {
    try {
      const tx = await this.#hw.transaction(
        [sql`UPDATE bench SET n = n + 1 WHERE id = ${row}`, sql`SELECT n FROM bench WHERE id = ${row}`],
        { isolation: ISOLATION },
      );
      // On a slow machine an answer may come too late, and a replay has no rows.
      if (!tx.replayed && !(Number(tx.rows[0]?.["n"]) >= 1)) throw new Error("there is no such row");
      return true;
    } catch (cause) {
      if (cause instanceof HighwaterError && cause.code === "serialization_failure") return false;
      throw cause;
    }
  }

  connect(): Promise<void> {
    return new Promise((resolve) => {
      this.#hw.subscribe(({ marks }) => {
        if (marks !== null) resolve();
      });
    });
  }

  durable(token: string): Promise<unknown> {
    return this.#hw.promise(token).durable({ timeoutMs: TIMEOUT_MS });
  }
}
