// Lets the gate see what a client does in a request. It takes the place of the client's methods,
// because the main entry carries no code for gates.
import {
  type DurabilityPromise,
  type Highwater,
  type InteractiveTransaction,
  type Transaction,
} from "../index.ts";
import { type Opened, type Scope } from "./scope.ts";

type Methods = Pick<Highwater, "transaction" | "transact" | "begin">;
type Core = Highwater["core"];

/** The client's own methods, past the gate. */
export type Ungated = Methods["transaction"];

const watched = new WeakSet<Highwater>();

/** Reports the client's transactions to the scope of the request that runs them. */
export function watchClient(hw: Highwater, scope: () => Scope | undefined): Ungated {
  if (watched.has(hw)) throw new Error("the client has an output gate: use that one");
  watched.add(hw);
  const { core } = hw;
  // The arguments are those of the method that is replaced, whatever its overloads.
  type Any = (...args: never[]) => Promise<unknown>;
  const own = {
    transaction: hw.transaction.bind(hw),
    // They are called for one transaction's view of the client.
    // oxlint-disable-next-line typescript/unbound-method
    transact: hw.transact,
    // oxlint-disable-next-line typescript/unbound-method
    begin: hw.begin,
    oneShot: core.transaction,
    committed: core.committed,
  };

  const transaction = async (work: unknown, ...rest: never[]): Promise<unknown> => {
    if (typeof work === "function") return gated.transact(work as never, rest[0] as never);
    const at = scope();
    try {
      const committed = await (own.transaction as Any)(work as never, ...rest);
      at?.add(committed as Transaction);
      return committed;
    } catch (cause) {
      at?.failed(cause);
      throw cause;
    }
  };
  const transact = (body: (tx: InteractiveTransaction) => unknown, options: never): Promise<unknown> => {
    const at = scope();
    if (!at) return own.transact.call(hw, body, options);
    let opened: Opened | undefined;
    const seen = seeing(hw, (epoch) => {
      if (opened && !("epoch" in opened)) opened.epoch = epoch;
    });
    const run = (tx: InteractiveTransaction): unknown => {
      opened = { tx };
      at.open(opened);
      watchErrors(tx, at);
      return body(tx);
    };
    return own.transact.call(seen, run, options);
  };
  const begin = async (options?: never): Promise<InteractiveTransaction> => {
    const at = scope();
    if (!at) return own.begin.call(hw, options);
    const opened: { tx?: InteractiveTransaction; epoch?: string | null } = {};
    const seen = seeing(hw, (epoch) => {
      if (!("epoch" in opened)) opened.epoch = epoch;
    });
    opened.tx = await own.begin.call(seen, options);
    at.open(opened as Opened);
    watchErrors(opened.tx, at);
    return opened.tx;
  };
  const gated = { transaction, transact, begin };
  Object.assign(hw, gated);
  // An interactive transaction that never sent a statement, and one of the application's own
  // connection, commit by these.
  Object.assign(core, {
    transaction: (...args: Parameters<Core["transaction"]>) => remembered(scope(), own.oneShot(...args)),
    committed: (...args: Parameters<Core["committed"]>) => {
      const committed = own.committed(...args);
      scope()?.add(committed);
      return committed;
    },
  });
  return own.transaction;
}

/** The client, for one transaction: `saw` gets the epoch of the gateway with each answer. */
function seeing(hw: Highwater, saw: (epoch: string | null) => void): Highwater {
  const { core } = hw;
  const learnMarks: Core["watcher"]["learnMarks"] = (marks) => {
    saw(marks?.epoch ?? null);
    core.watcher.learnMarks(marks);
  };
  return Object.create(hw, {
    core: { value: Object.create(core, { watcher: { value: { learnMarks } } }) as Core },
  }) as Highwater;
}

/** A refused statement says something, too. */
function watchErrors(tx: InteractiveTransaction, scope: Scope): void {
  for (const name of ["execute", "commit"] as const) {
    const own = tx[name].bind(tx) as (...args: never[]) => Promise<unknown>;
    const watchedCall = (...args: never[]): Promise<unknown> => {
      const called = own(...args);
      called.catch((cause: unknown) => {
        scope.failed(cause);
      });
      return called;
    };
    Object.assign(tx, { [name]: watchedCall });
  }
}

async function remembered<T extends DurabilityPromise>(
  scope: Scope | undefined,
  work: Promise<T>,
): Promise<T> {
  const committed = await work;
  scope?.add(committed);
  return committed;
}
