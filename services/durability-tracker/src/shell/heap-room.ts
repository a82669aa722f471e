// Lets the heap grow faster while a failover is reconciled. `--heap-growing-percent=25` keeps a
// tracker with a million pending transactions small: the heap is collected whenever it has grown by
// a quarter. When a hundred thousand of them become entries it grows sixfold, and the collector
// would take a third of the time. V8 reads the percentage at each collection, and keeps the heap
// below its limit whatever the percentage is.
import { setFlagsFromString } from "node:v8";
import { type Clock } from "@highwater/runtime";
import { type TrackerState } from "../core/index.ts";
import { type Subscriber } from "./reports.ts";

const FLAG = "--heap-growing-percent=";
const RECONCILING_PERCENT = 100;
/** Fewer are placed before the collector has run twice. */
const MANY = 10_000;
const LOOK_MS = 1_000;

export class HeapRoom implements Subscriber {
  readonly #clock: Clock;
  readonly #usual: string | undefined;
  readonly #set: (flag: string) => void;
  #isOpen = false;

  /** Without the option among the process's own, nothing is changed. */
  constructor(clock: Clock, options: readonly string[] = process.execArgv, set = setFlagsFromString) {
    this.#clock = clock;
    this.#usual = options.find((option) => option.startsWith(FLAG));
    this.#set = set;
  }

  onEpochs(state: TrackerState): void {
    if (this.#usual === undefined || this.#isOpen || openCount(state) < MANY) return;
    this.#isOpen = true;
    this.#set(`${FLAG}${String(RECONCILING_PERCENT)}`);
    this.#lookLater(state, this.#usual);
  }

  #lookLater(state: TrackerState, usual: string): void {
    this.#clock.after(LOOK_MS, () => {
      if (openCount(state) > 0) {
        this.#lookLater(state, usual);
        return;
      }
      this.#isOpen = false;
      this.#set(usual);
    });
  }
}

function openCount({ proofs, ledger }: TrackerState): number {
  let asked = 0;
  for (const { keys } of proofs.asked.values()) asked += keys.length;
  return proofs.unproven.size + asked + ledger.absent.size;
}
