// The calls of a transaction that is open on a session, one after another.
import { type Statement, type StatementResult } from "@highwater/protocol";
import { type Execution, type OpenCommitOptions, type ResultMeter } from "./port.ts";

export abstract class OpenCalls {
  /** The last call, until it no longer uses the session. */
  #call: Promise<unknown> = Promise.resolve();
  readonly #ending = new AbortController();

  protected abstract runNow(
    statements: readonly Statement[],
    signal: AbortSignal | undefined,
    meter: ResultMeter | undefined,
  ): Promise<readonly StatementResult[]>;

  protected abstract commitNow(
    statements: readonly Statement[],
    options: OpenCommitOptions,
  ): Promise<Execution>;

  run(
    statements: readonly Statement[],
    signal?: AbortSignal,
    meter?: ResultMeter,
  ): Promise<readonly StatementResult[]> {
    return this.#follow(this.runNow(statements, signal, meter));
  }

  commit(statements: readonly Statement[], options: OpenCommitOptions = {}): Promise<Execution> {
    return this.#follow(this.commitNow(statements, options));
  }

  /** Aborts the running call and waits until it no longer uses the session. */
  protected async endCalls(): Promise<void> {
    this.#ending.abort();
    await this.#call.catch(() => undefined);
  }

  /** Aborts with the call's own signal, and when its transaction is rolled back meanwhile. */
  protected abortingWith(signal: AbortSignal | undefined): AbortSignal {
    const ending = this.#ending.signal;
    return signal === undefined ? ending : AbortSignal.any([signal, ending]);
  }

  #follow<T>(call: Promise<T>): Promise<T> {
    this.#call = call;
    return call;
  }
}
