// Checks that sessions may run as a role: no superuser, none that can become one, and no writer
// where keys only read. It checks when a session begins, and every minute while one is open.
import { HighwaterError } from "@highwater/protocol";
import { type Deps } from "../deps.ts";

const RECHECK_MS = 60_000;
/** Sessions that begin within this time share an answer about their role. */
const SHARED_MS = 1_000;

/** A login role on a node. `reads`: its clients may only read. */
export interface RoleUse {
  readonly node: string;
  readonly role: string;
  readonly reads: boolean;
}

interface Vetted {
  readonly atMs: number;
  readonly faults: Promise<readonly string[]>;
}

export class RoleVetting {
  readonly #deps: Pick<Deps, "clock" | "store">;
  readonly #vetted = new Map<string, Vetted>();

  constructor(deps: Pick<Deps, "clock" | "store">) {
    this.#deps = deps;
  }

  /** Errors: `forbidden` with all reasons; those of the store. */
  async check(use: RoleUse): Promise<void> {
    const faults = await this.#faultsOf(use);
    if (faults.length === 0) return;
    throw new HighwaterError("forbidden", {
      detail: `No session runs as the role ${use.role}: it ${faults.join("; it ")}. Take that from the role, or give the key another one.`,
    });
  }

  /** Calls back when sessions may no longer run as the role. Returns the end of the watch. */
  watch(use: RoleUse, onFault: () => void): () => void {
    const { clock } = this.#deps;
    let cancel = (): void => undefined;
    const wait = (): void => {
      cancel = clock.after(RECHECK_MS, () => {
        // A check that fails to get an answer does not end the sessions.
        this.#faultsOf(use).then((faults) => {
          if (faults.length > 0) onFault();
          else wait();
        }, wait);
      });
    };
    wait();
    return () => {
      cancel();
    };
  }

  #faultsOf({ node, role, reads }: RoleUse): Promise<readonly string[]> {
    const { clock, store } = this.#deps;
    const nowMs = clock.monotonicMs();
    for (const [name, { atMs }] of this.#vetted) if (nowMs - atMs >= SHARED_MS) this.#vetted.delete(name);
    const name = JSON.stringify([node, role, reads]);
    let vetted = this.#vetted.get(name);
    if (vetted === undefined) {
      const faults = store.roleFaults(node, role, reads);
      vetted = { atMs: nowMs, faults };
      this.#vetted.set(name, vetted);
      // Asks again next time.
      faults.catch(() => {
        this.#vetted.delete(name);
      });
    }
    return vetted.faults;
  }
}
