// What a switchover has done, says it as it goes, and how to go on if it is interrupted.
import { type EpochRecord, formatOffset } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type Scene, type Step } from "./next-step.ts";

interface Options {
  readonly note: (text: string) => void;
  readonly clock: Clock;
  /** Only the result is wanted. */
  readonly isSilent: boolean;
}

const EXIT = { done: 0, failed: 1, refused: 3, unfinished: 4 } as const;
type Outcome = keyof typeof EXIT | "planned";
type Taken = Exclude<Step, { kind: "refuse" | "wait" | "done" | "promote" | "restart" }>;

export class Progress {
  static readonly EXIT = EXIT;
  readonly #target: string;
  readonly #out: Options;
  readonly #steps: { readonly step: Step["kind"]; readonly says: string }[] = [];
  readonly #warnings: string[] = [];
  #outcome: Outcome = "planned";
  #reasons: readonly string[] = [];
  #from: string | null = null;
  /** How to go on, while it is not done. */
  #goOn: string;
  /** Something was changed, by this run or an earlier one. */
  #hasBegun = false;
  #plan = "";
  #end: string | null = null;
  #reached: string | null = null;
  #stoppedCleanly: boolean | null = null;
  #epoch: EpochRecord | null = null;
  #waitsFor = "";
  /** When a primary was last seen before the change, and when the new one was first seen. */
  #lastMs: number | null = null;
  #blockedMs: number | null = null;

  constructor(target: string, out: Options) {
    this.#target = target;
    this.#out = out;
    this.#goOn = this.#again();
  }

  get exitCode(): number {
    return this.#outcome === "planned" ? EXIT.done : EXIT[this.#outcome];
  }

  /** `isOnlyPlan`: it is the result. */
  plan(
    { owner, nodes, target }: Scene,
    { isOnlyPlan, isRestartedHere }: { readonly isOnlyPlan: boolean; readonly isRestartedHere: boolean },
  ): void {
    this.#from = owner;
    const [old, heir] = [nodes.get(owner), nodes.get(target)];
    this.#hasBegun = old?.role !== "primary" || old.signal.kind === "hands_over";
    const behind = old === undefined || heir === undefined ? 0n : old.applied - heir.applied;
    const steps = [
      `hand over: ${owner} becomes a standby at its next start. Until then it goes on as it is`,
      `restart ${owner}, ${isRestartedHere ? "by --restart-command" : "by you"}. No transaction commits from here on to step 4`,
      `wait until ${target} has everything that ${owner} has`,
      `promote ${target}`,
      `authorize ${target} for Highwater`,
      `point ${owner} and all other standbys at ${target}`,
    ];
    const now = this.#hasBegun
      ? `A switchover from ${owner} to ${target} has begun.`
      : `${owner} is the primary; ${target} is ${String(behind < 0n ? 0n : behind)} bytes of log behind it.`;
    this.#plan =
      owner === target
        ? `${target} is the primary, or was the last one. It will be the primary, and all others follow it.`
        : [now, ...steps.map((step, at) => `  ${String(at + 1)}. ${step}`)].join("\n");
    if (!isOnlyPlan) this.#say(this.#plan);
  }

  warn(text: string): void {
    if (this.#warnings.includes(text)) return;
    this.#warnings.push(text);
    this.#say(`Warning: ${text}`);
  }

  see({ owner, nodes, target }: Scene): void {
    this.#from ??= owner;
    const nowMs = this.#out.clock.monotonicMs();
    const writable = [...nodes.values()].find(({ role }) => role === "primary");
    if (writable === undefined) return;
    if (writable.node !== target) this.#lastMs = nowMs;
    else if (this.#lastMs !== null) this.#blockedMs ??= nowMs - this.#lastMs;
  }

  did(step: Taken, target: string): void {
    const { says, goOn } = this.#describe(step, target);
    this.#record(step.kind, says, goOn);
  }

  restarts(node: string): void {
    this.#record("restart", `restarting ${node}`, `see that ${node} runs, then ${this.#again()}`);
  }

  askForRestart(node: string): void {
    if (this.#steps.some(({ step }) => step === "restart")) return;
    this.#record(
      "restart",
      `restart ${node} now, cleanly: pg_ctl restart --mode fast, or systemctl restart. No transaction commits from then on until ${this.#target} is promoted`,
      this.#again(),
    );
  }

  promoted(step: Extract<Step, { kind: "promote" }>, stoppedCleanly: boolean): void {
    const { node, arbiter, end, reached } = step;
    this.#end = formatOffset(end);
    this.#reached = formatOffset(reached);
    const isBack = node === arbiter;
    if (!isBack) this.#stoppedCleanly = stoppedCleanly;
    const says = isBack
      ? `promoted ${node} again: it has all of its log`
      : `promoted ${node}: ${arbiter} is a standby, its log ends at ${formatOffset(end)}, and ${node} has it up to ${formatOffset(reached)}`;
    this.#record("promote", says, this.#again());
    if (!isBack && !stoppedCleanly)
      this.warn(
        `${arbiter} was not stopped cleanly. Transactions that were not on its disk yet are lost with it, and Highwater reports them`,
      );
  }

  wait(reason: string): void {
    if (reason === this.#waitsFor) return;
    this.#waitsFor = reason;
    this.#say(`Waiting: ${reason}`);
  }

  refuse(reasons: readonly string[]): void {
    this.#close("refused", reasons);
  }

  fail(reasons: readonly string[]): void {
    this.#close("failed", reasons);
  }

  stop(reason: string): void {
    this.#close("unfinished", [reason]);
  }

  finish(epoch: EpochRecord | null): void {
    this.#epoch = epoch;
    this.#close("done", []);
  }

  result(): unknown {
    const epoch = this.#epoch;
    return {
      version: 1,
      outcome: this.#outcome,
      exitCode: this.exitCode,
      target: this.#target,
      from: this.#from,
      steps: this.#steps,
      reasons: this.#reasons,
      warnings: this.#warnings,
      goOn: this.#isOpen ? this.#goOn : null,
      end: this.#end,
      reached: this.#reached,
      stoppedCleanly: this.#stoppedCleanly,
      withoutPrimaryMs: this.#blockedMs === null ? null : Math.round(this.#blockedMs),
      epoch:
        epoch === null
          ? null
          : {
              id: epoch.id,
              seq: epoch.seq,
              node: epoch.node,
              cause: epoch.cause,
              forkLimit: epoch.forkLimit,
            },
    };
  }

  asText(): string {
    const target = this.#target;
    const { seq, id } = this.#epoch ?? {};
    const headline = {
      done: `DONE: ${target} is the primary, in epoch ${String(seq)} (${id ?? ""}), and all others follow it`,
      planned: this.#plan,
      refused: this.#isOpen ? "REFUSED, half-way" : "REFUSED: nothing is changed",
      failed: "FAILED",
      unfinished: "NOT FINISHED",
    }[this.#outcome];
    const gap =
      this.#blockedMs === null
        ? []
        : [`No node was writable for at most ${(this.#blockedMs / 1_000).toFixed(1)} s.`];
    return [
      headline,
      ...this.#reasons.map((reason) => `  ${reason}`),
      ...gap,
      ...(this.#isOpen ? [`To go on: ${this.#goOn}`] : []),
    ].join("\n");
  }

  #describe(step: Taken, target: string): { readonly says: string; readonly goOn: string } {
    const again = this.#again();
    switch (step.kind) {
      case "hand_over":
        return {
          says: `handed over: ${step.node} becomes a standby at its next start, and follows ${target} once that is writable`,
          goOn: `${again}; or call it off: highwater switchover ${step.node}`,
        };
      case "call_off":
        return { says: `called off: ${step.node} stays the primary`, goOn: again };
      case "authorize":
        return { says: `authorized ${step.node}: the services begin its epoch`, goOn: again };
      case "follow":
        return { says: `pointed ${step.nodes.join(" and ")} at ${target}`, goOn: again };
      case "tidy":
        return {
          says: `dropped replication slots that no node uses any more: ${step.slots.map(({ node, slot }) => `${slot} on ${node}`).join(", ")}`,
          goOn: again,
        };
    }
  }

  get #isOpen(): boolean {
    return this.#hasBegun && this.#outcome !== "done" && this.#outcome !== "planned";
  }

  #again(): string {
    return `highwater switchover ${this.#target}`;
  }

  #record(step: Step["kind"], says: string, goOn: string): void {
    this.#hasBegun = true;
    this.#steps.push({ step, says });
    this.#goOn = goOn;
    this.#waitsFor = "";
    this.#say(`${says.charAt(0).toUpperCase()}${says.slice(1)}.\n  If this is interrupted: ${goOn}`);
  }

  #close(outcome: Outcome, reasons: readonly string[]): void {
    this.#outcome = outcome;
    this.#reasons = reasons;
  }

  #say(text: string): void {
    if (!this.#out.isSilent) this.#out.note(text);
  }
}
