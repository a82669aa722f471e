// The API keys as the primary's database has them now, for operators. Not those that this tracker
// remembers: after a failover a change may be missing that services still remember.
import { HighwaterError, type KeyList, OPERATOR_LIMITS } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { describeKey } from "@highwater/service";
import { type KeyReader } from "@highwater/store";

export interface KeyListingOptions {
  readonly clock: Pick<Clock, "wallMs">;
  /** Opens the store of the keys; called when they are first wanted. */
  readonly keys: () => KeyReader;
  /** Null: no primary is known. */
  readonly primary: () => string | null;
}

export class KeyListing {
  readonly #options: KeyListingOptions;
  #reader: KeyReader | null = null;
  /** Callers that come while it is read share the answer. */
  #reading: Promise<KeyList> | null = null;

  constructor(options: KeyListingOptions) {
    this.#options = options;
  }

  /** Errors: `primary_unavailable`. */
  list(): Promise<KeyList> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  close(): void {
    this.#reader?.close();
  }

  async #read(): Promise<KeyList> {
    const { clock, keys, primary } = this.#options;
    const node = primary();
    if (node === null) throw unavailable("The tracker knows no primary now; retry.");
    this.#reader ??= keys();
    try {
      const found = [...(await this.#reader.readKeys(node, null))];
      found.sort((one, other) => other.createdAtMs - one.createdAtMs);
      const nowMs = clock.wallMs();
      return {
        keys: found.slice(0, OPERATOR_LIMITS.keysListed).map((key) => describeKey(key, nowMs)),
        total: found.length,
      };
    } catch (cause) {
      throw unavailable("The keys cannot be read from the primary now; retry.", cause);
    }
  }
}

function unavailable(detail: string, cause?: unknown): HighwaterError {
  return new HighwaterError("primary_unavailable", { detail, retryAfterMs: 1_000 }, { cause });
}
