// A serial database that loses the end of its log in failovers and reports the truth: every history
// that it makes is good. It shares only the format with the checker.
import type { FinalState, HistoryRecord, Operation, Shown, VerdictReport } from "../../src/history.ts";
import { Random } from "./random.ts";

export interface GeneratorOptions {
  readonly seed: number;
  readonly transactions: number;
  readonly failures?: number;
  /** How many keys are in use at a time, and after how many transactions others replace them. */
  readonly keys?: number;
  readonly keysLast?: number;
  readonly sessions?: number;
}

const LEVELS = ["disk", "region", "global"] as const;
const TRACKERS = ["near", "mid", "far"] as const;
const ACCOUNTS = 6;
const BALANCE = 1_000;
const NODES = ["a", "b", "c"] as const;

interface Effect {
  readonly txn: string;
  readonly epoch: string;
  readonly operations: readonly Operation[];
}

interface Run {
  readonly txn: string;
  readonly branch: Branch;
  readonly epoch: string;
  /** How much of the log it has written or seen. */
  readonly place: number;
  /** The offset in its token: a little more. */
  readonly offset: number;
  readonly readOnly: boolean;
  readonly reached: Set<string>;
  isAcknowledged: boolean;
  wasReportedLost: boolean;
  sawReturn: boolean;
}

/** One history: a log, and the tables that result from it. */
class Branch {
  readonly epoch: string;
  readonly node: string;
  readonly began: number;
  readonly path: readonly string[];
  readonly log: Effect[] = [];
  readonly lists = new Map<string, number[]>();
  readonly balances = new Array<number>(ACCOUNTS).fill(BALANCE);
  readonly marks: Record<string, number>;

  constructor(epoch: string, node: string, before: Branch | null, kept: number) {
    this.epoch = epoch;
    this.node = node;
    this.path = [...(before?.path ?? []), epoch];
    for (const effect of before?.log.slice(0, kept) ?? []) this.apply(effect);
    this.began = this.log.length;
    this.marks = { disk: this.began, region: this.began, global: this.began };
  }

  apply(effect: Effect): void {
    this.log.push(effect);
    for (const operation of effect.operations) {
      if (operation.f === "append" || operation.f === "readAppend") {
        const list = this.lists.get(operation.key);
        if (list === undefined) this.lists.set(operation.key, [operation.value]);
        else list.push(operation.value);
      } else if (operation.f === "transfer") {
        this.balances[operation.from] = (this.balances[operation.from] ?? 0) - operation.amount;
        this.balances[operation.to] = (this.balances[operation.to] ?? 0) + operation.amount;
      }
    }
  }
}

export function generate(options: GeneratorOptions): HistoryRecord[] {
  return new Generator(options).run();
}

class Generator {
  readonly #random: Random;
  readonly #options: Required<GeneratorOptions>;
  readonly #records: HistoryRecord[] = [];
  readonly #runs: Run[] = [];
  readonly #sessionFree: number[];
  readonly #sessionLast: (Run | null)[];
  readonly #epochs: FinalState["epochs"][number][] = [];
  readonly #lostBodies: { readonly txn: string; readonly operations: readonly Operation[] }[] = [];
  #nowMs = 0;
  #values = 0;
  #branch: Branch;
  #zombie: Branch | null = null;

  constructor(options: GeneratorOptions) {
    this.#options = { failures: 5, keys: 8, keysLast: 2_000, sessions: 6, ...options };
    this.#random = new Random(options.seed);
    this.#sessionFree = new Array<number>(this.#options.sessions).fill(0);
    this.#sessionLast = new Array<Run | null>(this.#options.sessions).fill(null);
    this.#branch = this.#begin("a", null, 0);
  }

  run(): HistoryRecord[] {
    const { seed, transactions, failures } = this.#options;
    const bank = { accounts: ACCOUNTS, balance: BALANCE };
    this.#records.push({ type: "scenario", format: 1, seed, levels: LEVELS, bank });
    const every = Math.max(2, Math.floor(transactions / (failures + 1)));
    for (let done = 0; done < transactions; done++) {
      const zombie = this.#zombie;
      this.#execute(zombie !== null && this.#random.chance(0.2) ? zombie : this.#branch);
      if (this.#random.chance(0.3)) this.#advance(this.#branch);
      if (done % every === every - 1 && failures > 0) this.#fail();
    }
    this.#settle();
    return this.#records;
  }

  #begin(node: string, before: Branch | null, kept: number): Branch {
    const id = `epoch-${String(this.#epochs.length + 1)}`;
    this.#epochs.push({
      ...{
        id,
        seq: this.#epochs.length + 1,
        previous: before?.epoch ?? null,
        node,
        inHistory: false,
        commanded: true,
      },
    });
    return new Branch(id, node, before, kept);
  }

  #advance(branch: Branch): void {
    const end = branch.log.length + 2;
    for (const level of branch === this.#zombie ? ["disk"] : LEVELS) {
      const mark = branch.marks[level] ?? 0;
      branch.marks[level] = mark + this.#random.below(Math.max(1, end - mark));
    }
    // More distant levels lag behind nearer ones.
    branch.marks.region = Math.min(branch.marks.region ?? 0, branch.marks.disk ?? 0);
    branch.marks.global = Math.min(branch.marks.global ?? 0, branch.marks.region);
    this.#noteReached(branch);
  }

  #noteReached(branch: Branch): void {
    for (let at = this.#runs.length - 1; at >= Math.max(0, this.#runs.length - 500); at--) {
      const run = this.#runs[at];
      if (run?.branch !== branch) continue;
      for (const level of LEVELS) {
        if ((branch.marks[level] ?? 0) < run.offset || run.reached.has(level)) continue;
        run.reached.add(level);
        if (run.isAcknowledged && this.#random.chance(0.5))
          this.#report(run, level, "durable", "promise", null);
      }
    }
  }

  #fail(): void {
    const zombie = this.#zombie;
    const kind = this.#random.pick([
      "crash",
      "promotion",
      "laggard",
      "restore",
      zombie === null ? "crash" : "return",
    ]);
    const old = this.#branch;
    const { marks } = old;
    this.#nowMs += 50;
    const atMs = this.#nowMs;
    const lowest = { crash: marks.disk, promotion: marks.region, laggard: marks.global }[kind] ?? old.began;
    const from = Math.min(lowest, old.log.length);
    const cut = from + this.#random.below(old.log.length - from + 1);
    const [before, node, kept] =
      kind === "return" && zombie !== null
        ? [zombie, zombie.node, zombie.log.length]
        : [
            old,
            kind === "crash" ? old.node : this.#random.pick(NODES.filter((other) => other !== old.node)),
            cut,
          ];
    this.#branch = this.#begin(node, before, kept);
    const survivors = new Set(this.#branch.log.map(({ txn, epoch }) => `${txn} ${epoch}`));
    const broken = new Set<string>(node === old.node ? [] : ["disk"]);
    for (const run of this.#runs) {
      if (!old.path.includes(run.epoch) && !(zombie?.path.includes(run.epoch) ?? false)) continue;
      if (this.#isIn(run, this.#branch, survivors)) {
        if (!run.wasReportedLost) continue;
        run.sawReturn = true;
        for (const level of LEVELS) broken.add(level);
        continue;
      }
      for (const level of run.reached) broken.add(level);
      run.wasReportedLost ||= run.isAcknowledged && run.reached.size === 0;
      if (run.wasReportedLost) this.#report(run, "global", "lost", "event", "near");
    }
    this.#zombie = kind === "promotion" && this.#random.chance(0.7) ? old : null;
    const keptLevels = LEVELS.filter((level) => !broken.has(level));
    this.#records.push({ type: "failure", atMs, kind, node, kept: keptLevels });
    this.#records.push({
      type: "fault",
      atMs,
      untilMs: atMs + 10,
      kind: `kill_${kind}`,
      target: old.node,
      error: null,
    });
    this.#nowMs += 50;
  }

  #isIn(run: Run, branch: Branch, survivors: ReadonlySet<string>): boolean {
    if (!branch.path.includes(run.epoch)) return false;
    if (!run.readOnly) return survivors.has(`${run.txn} ${run.epoch}`);
    // A read is there if everything that it saw is: the log up to its position.
    return run.branch.log.slice(0, run.place).every((effect, at) => branch.log[at] === effect);
  }

  #execute(branch: Branch): void {
    this.#nowMs += this.#random.next() * 2;
    const { sessions } = this.#options;
    const session = this.#random.below(sessions);
    const free = this.#sessionFree[session] ?? 0;
    if (free > this.#nowMs) this.#nowMs = free;
    const last = this.#sessionLast[session] ?? null;
    const txn = `txn-${String(this.#runs.length)}`;
    const readOnly = this.#random.chance(0.3);
    const rerun = !readOnly && this.#random.chance(0.5) ? this.#lostBodies.pop() : undefined;
    const operations = rerun === undefined ? this.#body(readOnly) : this.#again(rerun.operations);
    const isSnapshot = readOnly && this.#random.chance(0.4);
    const after = isSnapshot && last?.branch === branch && this.#random.chance(0.6) ? last : null;
    const began = Math.max(free, this.#nowMs - this.#random.next() * 5);
    this.#records.push({
      ...{
        type: "invocation",
        atMs: began,
        client: `client-${String(session)}`,
        session: `session-${String(session)}`,
      },
      ...{ txn, rerunOf: rerun?.txn ?? null, ack: "commit", level: "region", readOnly },
      ...{ isolation: isSnapshot ? "snapshot" : "serializable", after: after?.txn ?? null, operations },
    });
    const ended = this.#nowMs + this.#random.next() * 5;
    this.#sessionFree[session] = ended;
    if (this.#random.chance(0.04)) {
      const error = this.#random.chance(0.5);
      this.#answer(txn, ended, error ? "aborted" : "unknown", null, null);
      if (!error)
        this.#records.push({ type: "resolution", atMs: ended + 20, txn, outcome: "never", position: null });
      this.#runs.push(this.#runOf(txn, branch, branch.log.length, true));
      return;
    }
    const length = isSnapshot ? this.#staleLength(branch, after) : branch.log.length;
    const shown = this.#show(branch, length, operations);
    if (!readOnly) branch.apply({ txn, epoch: branch.epoch, operations });
    const run = this.#runOf(txn, branch, readOnly ? length : branch.log.length, readOnly);
    this.#runs.push(run);
    const position = { epoch: branch.epoch, offset: String(run.offset) };
    run.isAcknowledged = true;
    if (this.#random.chance(0.05)) {
      this.#answer(txn, ended, "unknown", null, null);
      this.#records.push({ type: "resolution", atMs: ended + 20, txn, outcome: "committed", position });
      return;
    }
    this.#answer(txn, ended, "committed", position, shown);
    this.#sessionLast[session] = run;
  }

  #runOf(txn: string, branch: Branch, place: number, readOnly: boolean): Run {
    const offset = place + this.#random.below(3);
    return {
      ...{ txn, branch, epoch: branch.epoch, place, offset, readOnly, reached: new Set<string>() },
      ...{ isAcknowledged: false, wasReportedLost: false, sawReturn: false },
    };
  }

  #staleLength(branch: Branch, after: Run | null): number {
    const from = Math.max(branch.began, after?.place ?? 0);
    return from + this.#random.below(branch.log.length - from + 1);
  }

  #answer(
    txn: string,
    atMs: number,
    outcome: "committed" | "aborted" | "unknown",
    position: { epoch: string; offset: string } | null,
    shown: readonly Shown[] | null,
  ): void {
    const rest = { durableAt: null, replayed: false, error: outcome === "committed" ? null : "some_error" };
    this.#records.push({ type: "answer", atMs, txn, outcome, position, shown, ...rest });
  }

  #body(readOnly: boolean): Operation[] {
    const { keys, keysLast } = this.#options;
    const generation = Math.floor(this.#runs.length / keysLast);
    const key = (): string => `${String(generation)}.${String(this.#random.below(keys))}`;
    if (readOnly) {
      if (this.#random.chance(0.1)) return [{ f: "sum" }];
      return Array.from({ length: 1 + this.#random.below(3) }, () => ({ f: "read", key: key() }));
    }
    return Array.from({ length: 1 + this.#random.below(3) }, (): Operation => {
      const chance = this.#random.next();
      if (chance < 0.1) return { f: "insert", value: ++this.#values };
      if (chance < 0.2) {
        const from = this.#random.below(ACCOUNTS);
        return { f: "transfer", from, to: (from + 1) % ACCOUNTS, amount: 1 + this.#random.below(9) };
      }
      if (chance < 0.4) return { f: "read", key: key() };
      return { f: chance < 0.7 ? "append" : "readAppend", key: key(), value: ++this.#values };
    });
  }

  #again(operations: readonly Operation[]): Operation[] {
    return operations.map((it) => ("value" in it ? { ...it, value: ++this.#values } : it));
  }

  /** What the operations return for a prefix of the log and their own writes. */
  #show(branch: Branch, length: number, operations: readonly Operation[]): Shown[] {
    const own = new Map<string, number[]>();
    return operations.map((operation) => {
      if (operation.f === "sum") return ACCOUNTS * BALANCE;
      if (operation.f !== "append" && operation.f !== "read" && operation.f !== "readAppend") return null;
      const mine = own.get(operation.key) ?? [];
      const shown =
        operation.f === "append" ? null : [...this.#listAt(branch, length, operation.key), ...mine];
      if (operation.f !== "read") own.set(operation.key, [...mine, operation.value]);
      return shown;
    });
  }

  #listAt(branch: Branch, length: number, key: string): number[] {
    const list = branch.lists.get(key) ?? [];
    if (length === branch.log.length) return list;
    const later = new Set<number>();
    for (let at = length; at < branch.log.length; at++) {
      for (const it of branch.log[at]?.operations ?? []) if ("value" in it) later.add(it.value);
    }
    return list.filter((value) => !later.has(value));
  }

  #report(
    run: Run,
    level: string,
    verdict: VerdictReport["verdict"],
    by: VerdictReport["by"],
    tracker: string | null,
  ): void {
    const { txn, epoch } = run;
    const attempt = by === "promise" ? null : epoch;
    this.#records.push({
      type: "report",
      atMs: this.#nowMs,
      txn,
      level,
      verdict,
      by,
      tracker,
      attempt,
      rule: null,
    });
  }

  #settle(): void {
    this.#nowMs += 1_000;
    const branch = this.#branch;
    const survivors = new Set(branch.log.map(({ txn, epoch }) => `${txn} ${epoch}`));
    for (const run of this.#runs) {
      if (!run.isAcknowledged) continue;
      const isThere = this.#isIn(run, branch, survivors);
      for (const level of LEVELS) {
        const verdict = this.#verdict(run, level, isThere);
        for (const tracker of TRACKERS) this.#report(run, level, verdict, "final", tracker);
      }
    }
    const receipts = branch.log.map(({ txn, epoch }) => ({ txn, epoch, kind: "commit" as const }));
    const effects = branch.log.flatMap(({ txn, operations }) =>
      operations.map((operation) => ({ txn, operation })),
    );
    this.#records.push({
      ...{ type: "final", atMs: this.#nowMs, node: branch.node, lists: Object.fromEntries(branch.lists) },
      balances: branch.balances,
      inserted: effects.flatMap(({ operation }) => (operation.f === "insert" ? [operation.value] : [])),
      transfers: effects.flatMap(({ txn, operation }) => {
        if (operation.f !== "transfer") return [];
        const { from, to, amount } = operation;
        return [{ txn, from, to, amount }];
      }),
      receipts,
      epochs: this.#epochs.map((epoch) => ({ ...epoch, inHistory: branch.path.includes(epoch.id) })),
    });
  }

  #verdict(run: Run, level: string, isThere: boolean): VerdictReport["verdict"] {
    if (run.wasReportedLost) return isThere || run.sawReturn ? "broken" : "lost";
    if (isThere) return "durable";
    if (!run.reached.has(level)) return "lost";
    const since = this.#branch.path.filter((epoch) => !run.branch.path.includes(epoch));
    const hasMoved = since.some(
      (id) => this.#epochs.find((epoch) => epoch.id === id)?.node !== run.branch.node,
    );
    return level === "disk" && hasMoved ? "durable" : "broken";
  }
}
