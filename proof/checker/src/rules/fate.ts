// A verdict is true, does not change, and reaches every client that learned of a commit.
import { type Excuses } from "../failures.ts";
import { type Findings } from "../findings.ts";
import { mayBeExpired } from "../expiry.ts";
import { type Failure } from "../history.ts";
import {
  type History,
  type Position,
  type Transaction,
  type UndoneRange,
  type Report,
  isAborted,
  isAcknowledged,
  isPresent,
  isUnreceipted,
} from "../model.ts";
import { type AttemptVerdicts, type Spoken, type Verdicts } from "../verdicts.ts";

export function judgeFate(history: History, verdicts: Verdicts, excuses: Excuses, findings: Findings): void {
  const judge = new FateJudge(history, verdicts, excuses, findings);
  for (const transaction of history.transactions) judge.judge(transaction);
}

class FateJudge {
  readonly #history: History;
  readonly #verdicts: Verdicts;
  readonly #findings: Findings;
  readonly #excuses: Excuses;

  constructor(history: History, verdicts: Verdicts, excuses: Excuses, findings: Findings) {
    this.#history = history;
    this.#verdicts = verdicts;
    this.#findings = findings;
    this.#excuses = excuses;
  }

  judge(transaction: Transaction): void {
    const verdicts = this.#verdicts.of(transaction);
    this.#judgeOutcome(transaction, verdicts);
    for (const ofAttempt of verdicts) {
      const isBack = hasReturned(ofAttempt);
      for (const [level, spoken] of ofAttempt.levels.entries()) {
        if (!isAborted(transaction)) this.#judgeTruth(transaction, ofAttempt, level);
        this.#judgeBroken(transaction, ofAttempt, level, isBack);
        this.#judgeFinal(transaction, ofAttempt, level, spoken);
      }
    }
    if (isAcknowledged(transaction) && !isUnreceipted(transaction)) this.#requireVerdicts(transaction);
  }

  /** Judges the outcome that the client received, without verdicts. */
  #judgeOutcome(transaction: Transaction, verdicts: readonly AttemptVerdicts[]): void {
    const { answer, resolution, invocation, attempts } = transaction;
    const { txn } = invocation;
    if (isAborted(transaction)) {
      const said =
        answer?.outcome === "aborted" ? "answered as aborted" : `resolved as ${resolution?.outcome ?? ""}`;
      const isDurable = verdicts.some(({ levels }) =>
        levels.some(({ reports }) =>
          reports.some((report) => isDurableReport(report) && !this.#isTakenBack(report)),
        ),
      );
      // A read without an answer may have run, and a tracker may have judged it.
      if (isDurable && !invocation.readOnly) {
        this.#findings.violation(
          "fate.aborted-durable",
          [txn],
          () => `T1 was ${said} and reported as durable`,
        );
      }
      return;
    }
    const isLost = answer?.outcome === "lost" || resolution?.outcome === "lost";
    const isBroken = verdicts.some(({ levels }) => levels.some(({ broken }) => broken !== null));
    // Of several attempts, one can be lost while another is there.
    if (isLost && !isBroken && attempts.length < 2 && isPresent(transaction, null) === true) {
      if (this.#hasRunSince(transaction)) this.#findings.ambiguity("sent_again_after_its_loss");
      else
        this.#findings.violation(
          "fate.lost-present",
          [txn],
          () => "T1 was answered as lost, and is there in the end",
        );
    }
    // No service can report its outcome.
    if (isUnreceipted(transaction)) return;
    const isOpen =
      answer?.outcome === "unknown" && (resolution === null || resolution.outcome === "unresolved");
    const isJudged = verdicts.some(({ levels }) => levels.some(({ final }) => final.size > 0));
    if (resolution?.outcome === "unresolved" || (isOpen && !isJudged)) {
      this.#findings.violation(
        "fate.unresolved",
        [txn],
        () => "T1 was answered as unknown, and nobody ever said more",
      );
    }
  }

  /**
   * Its only attempt is in an epoch that began after the answer, and so did a failure that kept no
   * level.
   */
  #hasRunSince({ answer, resolution, attempts }: Transaction): boolean {
    const { firstSeen, failures } = this.#history;
    const [attempt] = attempts;
    const repliedMs = (answer?.outcome === "lost" ? answer : resolution)?.atMs ?? Number.POSITIVE_INFINITY;
    return (
      attempt !== undefined &&
      (firstSeen.get(attempt) ?? 0) > repliedMs &&
      failures.some(({ kept, atMs }) => kept.length === 0 && atMs > repliedMs)
    );
  }

  #judgeTruth(transaction: Transaction, ofAttempt: AttemptVerdicts, level: number): void {
    const { attempt, levels } = ofAttempt;
    const spoken = levels[level];
    if (spoken === undefined || spoken.broken !== null) return;
    const { durable, lost, final, reports } = spoken;
    const present = isPresent(transaction, attempt);
    const { txn } = transaction.invocation;
    // A read-only transaction leaves nothing: it is absent if all verdicts say lost.
    const isAbsent = present === false || (present === null && final.size === 1 && final.has("lost"));
    if (durable === null || !isAbsent || this.#isBeyond(transaction, attempt, level)) {
      // It is there, or no client had a promise.
    } else if (reports.every((report) => !isDurableReport(report) || this.#isTakenBack(report))) {
      this.#findings.ambiguity("broken_as_a_range");
    } else if (
      isUnreceipted(transaction) &&
      !final.has("durable") &&
      this.#excuses.breaks(transaction, attempt, level, Number.POSITIVE_INFINITY) !== null
    ) {
      // Without a token no client could have asked, and a tracker that missed the mark answers
      // `unknown`.
      this.#findings.ambiguity("broken_without_token");
    } else if (this.#isExpiredUndone(transaction, ofAttempt, level)) {
      this.#findings.ambiguity("broken_as_a_range");
    } else {
      this.#findings.violation("fate.durable-absent", [txn], () => {
        const failure = this.#excuses.breaks(transaction, attempt, level, Number.POSITIVE_INFINITY);
        const how = present === null ? "lost" : "absent";
        return `T1 was reported as durable at ${this.#name(level)} (${durable.by}), and is ${how} at the end; ${blame(failure)}`;
      });
    }
    if (lost !== null && present === true) {
      this.#findings.violation("fate.lost-present", [txn], () => {
        return `T1 was reported as lost at ${this.#name(level)} (${lost.by}), and is there at the end`;
      });
    }
  }

  /**
   * The stream or the webhooks that reported it as durable later reported the promise as broken for
   * its part of the log. Trackers forget a transaction once it is durable everywhere; a client that
   * asks with its token gets the truth.
   */
  #isTakenBack({ by, level, position }: Report): boolean {
    if ((by !== "event" && by !== "webhook") || position === null) return false;
    return this.#undoing(level, position).some((range) => range.by === by);
  }

  /** Reports to all clients that the level's promises at this position are broken, oldest first. */
  #undoing(level: number, { epoch, offset }: Position): readonly UndoneRange[] {
    return this.#history.undone.filter(
      (range) =>
        range.level === level &&
        this.#history.epochs.contains(range.epoch, epoch) &&
        range.from < offset &&
        offset <= range.to,
    );
  }

  /**
   * A look-up with its token now returns `expired`, and no client asked between the failure and
   * that time. But before it, the promise at this position was reported to all clients as broken,
   * and nothing reported it as durable afterwards. Only a client's session may report durable again
   * if its promise was durable before: a client keeps a verdict and does not ask again.
   */
  #isExpiredUndone(transaction: Transaction, { attempt, levels }: AttemptVerdicts, level: number): boolean {
    const { final = new Set(), reports = [] } = levels[level] ?? {};
    const { answer, resolution, attempts } = transaction;
    // A look-up may give a position in a later epoch than the only attempt's.
    const received = [answer?.position, resolution?.position].find(
      (position) => position != null && (position.epoch === attempt || attempts.length === 1),
    );
    const where =
      levels.flatMap((other) => other.reports).find(({ position }) => position !== null)?.position ??
      (received == null ? null : { epoch: received.epoch, offset: BigInt(received.offset) });
    if (where === null || final.size !== 1 || !final.has("expired")) return false;
    const [first] = this.#undoing(level, where);
    if (first === undefined) return false;
    const durable = reports.filter(isDurableReport);
    const isKept = durable.some(({ by, atMs }) => by === "promise" && atMs <= first.atMs);
    return durable.every(({ atMs, isOfSession }) => atMs <= first.atMs || (isKept && isOfSession === true));
  }

  /** True if every tracker that calls it expired at the end does so after its retention. */
  #isOld(transaction: Transaction, reports: readonly Report[]): boolean {
    return reports.every(
      ({ by, verdict, atMs }) =>
        by !== "final" || verdict !== "expired" || mayBeExpired(this.#history.scenario, transaction, atMs),
    );
  }

  /** The level promises nothing about this failure: another node became the primary. */
  #isBeyond(transaction: Transaction, attempt: string | null, level: number): boolean {
    if (attempt === null || !this.#history.crashOnly.has(level)) return false;
    if (!this.#history.epochs.hasMoved(attempt)) return false;
    return this.#excuses.breaks(transaction, attempt, level, Number.POSITIVE_INFINITY) !== null;
  }

  #judgeBroken(
    transaction: Transaction,
    { attempt, levels }: AttemptVerdicts,
    level: number,
    isBack: boolean,
  ): void {
    const { durable, broken } = levels[level] ?? {};
    if (broken == null) return;
    // A transaction that comes back after a reported loss is broken at every level, whichever
    // levels the failure kept.
    const excuse = this.#excuses.breaks(transaction, attempt, isBack ? null : level, broken.atMs);
    // No client needs to have received the loss: the answer may have been lost, too.
    if (excuse === null && isBrokenEverywhere(levels) && this.#excuses.gaveUpOthers(attempt, broken.atMs)) {
      this.#findings.ambiguity("lost_to_a_tracker_that_was_cut_off");
    } else if (excuse === null) {
      this.#findings.violation("fate.promise-broken", [transaction.invocation.txn], () => {
        return `T1 was reported as broken at ${this.#name(level)} (${broken.by}), and every failure until then has kept the level`;
      });
    } else if (durable === null && !isBack) this.#findings.ambiguity("broken_without_report");
  }

  #judgeFinal(transaction: Transaction, ofAttempt: AttemptVerdicts, level: number, spoken: Spoken): void {
    const { final, reports } = spoken;
    // It had reached the primary's disk, but only those that learned it in time know that. For them
    // it stays durable on that disk; for all others it is lost. Both are true, and neither promises
    // anything about the new primary.
    const isBeyond =
      isLostOrBroken(ofAttempt, level) && this.#isBeyond(transaction, ofAttempt.attempt, level);
    const { txn } = transaction.invocation;
    const at = this.#name(level);
    if (final.has("pending")) {
      this.#findings.violation(
        "fate.pending",
        [txn],
        () => `T1 is pending at ${at} in the end (${whoSaid(spoken, "pending")})`,
      );
    }
    if (isUnreceipted(transaction) && final.has("lost")) {
      this.#findings.violation("fate.lost-guessed", [txn], () => {
        return `T1 is lost at ${at} in the end (${whoSaid(spoken, "lost")}), and has no receipt that could be missing`;
      });
    }
    for (const verdict of ["expired", "unknown", "refused"] as const) {
      if (!final.has(verdict) || (verdict === "expired" && this.#isOld(transaction, reports))) continue;
      if (verdict === "unknown" && this.#isUndecidable(transaction, ofAttempt.attempt)) {
        this.#findings.ambiguity("unknown_without_receipt");
        continue;
      }
      this.#findings.violation(
        "fate.unjudged",
        [txn],
        () => `T1 is ${verdict} at ${at} in the end (${whoSaid(spoken, verdict)})`,
      );
    }
    this.#judgeAgreement(transaction, level, spoken, isBeyond);
    if (reports.length > 1) {
      this.#judgeChanges(transaction, ofAttempt, spoken, { at, isBeyond });
      if (!isBeyond) this.#judgeBrokenKept(transaction, ofAttempt, at, spoken);
    }
  }

  /** Only its position is known, in an epoch that has ended. */
  #isUndecidable(transaction: Transaction, attempt: string | null): boolean {
    return isUnreceipted(transaction) && attempt !== null && attempt !== this.#history.epochs.last;
  }

  /**
   * All trackers must agree. They may have seen different marks, so two differences are allowed
   * while no client has received `durable`. In the first, all report it lost or broken, and only
   * those that saw the mark know of a promise. In the second, it only read, and left nothing by
   * which they could agree. A verdict that a client received binds all.
   */
  #judgeAgreement(
    transaction: Transaction,
    level: number,
    { final, reports }: Spoken,
    isBeyond: boolean,
  ): void {
    const { txn, readOnly } = transaction.invocation;
    const said = (["durable", "lost", "broken"] as const).filter((verdict) => final.has(verdict));
    if (said.length < 2) return;
    const reportedBefore = reports.find(({ by, verdict }) => by !== "final" && verdict === "durable");
    if (isBeyond) this.#findings.ambiguity("durable_on_a_lost_disk");
    else if (reportedBefore === undefined && readOnly) this.#findings.ambiguity("read_judged_apart");
    else if (reportedBefore === undefined && !final.has("durable"))
      this.#findings.ambiguity("promise_known_to_some");
    else {
      this.#findings.violation("fate.trackers-disagree", [txn], () => {
        const each = said.map((verdict) => `${verdict} (${whoSaid({ reports }, verdict)})`).join(" and ");
        const before =
          reportedBefore === undefined ? "" : `, and was reported as durable before (${reportedBefore.by})`;
        return `at ${this.#name(level)} T1 is ${each}${before}`;
      });
    }
  }

  /** No source may change durable to lost, lost to durable, or broken to anything else. */
  #judgeChanges(
    transaction: Transaction,
    ofAttempt: AttemptVerdicts,
    { reports, final }: Spoken,
    { at, isBeyond }: { readonly at: string; readonly isBeyond: boolean },
  ): void {
    const { txn } = transaction.invocation;
    const sources = Map.groupBy(reports, sourceOf);
    const logged = isLoggedAsBroken({ reports });
    for (const [source, said] of sources) {
      const first = (verdict: string): number => said.findIndex((report) => report.verdict === verdict);
      const [durable, lost, broken] = [first("durable"), first("lost"), first("broken")];
      // A client may repeat the verdicts of two trackers that followed different primaries. In the
      // end the promise has to be broken; if it has expired, the log has reported it as broken.
      const isAdmitted =
        (source === CLIENT || source === RECEIVER) &&
        final.size > 0 &&
        [...final].every((verdict) => verdict === "broken" || (verdict === "expired" && logged));
      if (isBeyond && durable >= 0 && lost >= 0) this.#findings.ambiguity("durable_on_a_lost_disk");
      else if (
        lost >= 0 &&
        durable >= 0 &&
        said.every((report) => !isDurableReport(report) || this.#isTakenBack(report))
      )
        this.#findings.ambiguity("broken_as_a_range");
      else if (isAdmitted && durable >= 0 && lost >= 0) this.#findings.ambiguity("two_trackers_differ");
      else if (durable >= 0 && lost >= 0) {
        this.#findings.violation("fate.verdict-changed", [txn], () => {
          return `${source} said of T1 at ${at}: ${durable < lost ? "durable, then lost" : "lost, then durable"}`;
        });
      }
      if (broken < 0) continue;
      const last = said.find(
        ({ by, verdict }) => by === "final" && (verdict === "durable" || verdict === "lost"),
      );
      if (last !== undefined && this.#isForgottenReturn(transaction, ofAttempt, last))
        this.#findings.ambiguity("returned_and_forgotten");
      else if (last !== undefined) {
        this.#findings.violation("fate.verdict-changed", [txn], () => {
          return `${source} said of T1 at ${at} that it is broken, and in the end that it is ${last.verdict}`;
        });
      } else if (source !== RECEIVER && (durable > broken || lost > broken))
        this.#findings.ambiguity("reports_out_of_order");
    }
  }

  /** A promise that was reported to all clients as broken holds for none. */
  #judgeBrokenKept(transaction: Transaction, ofAttempt: AttemptVerdicts, at: string, spoken: Spoken): void {
    const holds = spoken.reports.find(({ by, verdict }) => by === "final" && verdict === "durable");
    if (holds === undefined || !isLoggedAsBroken(spoken)) return;
    if (this.#isForgottenReturn(transaction, ofAttempt, holds))
      this.#findings.ambiguity("returned_and_forgotten");
    else
      this.#findings.violation("fate.verdict-changed", [transaction.invocation.txn], () => {
        return `${LOG} said of T1 at ${at} that it is broken, and ${holds.tracker ?? ""} in the end that it is durable`;
      });
  }

  /**
   * It was lost, came back and is there. Once trackers have forgotten the report that it is broken,
   * only its position decides: SPEC.md, R8.
   */
  #isForgottenReturn(
    transaction: Transaction,
    ofAttempt: AttemptVerdicts,
    { verdict, atMs }: Report,
  ): boolean {
    return (
      verdict === "durable" &&
      mayBeExpired(this.#history.scenario, transaction, atMs) &&
      hasReturned(ofAttempt) &&
      isPresent(transaction, ofAttempt.attempt) === true
    );
  }

  #requireVerdicts(transaction: Transaction): void {
    const { trackers, scenario } = this.#history;
    const said = new Set(
      transaction.reports.flatMap(({ by, tracker, level }) =>
        by === "final" ? [`${String(level)} ${tracker ?? ""}`] : [],
      ),
    );
    const missing = scenario.levels.flatMap((name, level) =>
      trackers.flatMap((tracker) =>
        said.has(`${String(level)} ${tracker}`) ? [] : [`${tracker} at ${name}`],
      ),
    );
    if (missing.length === 0 && trackers.length > 0) return;
    this.#findings.violation("fate.no-verdict", [transaction.invocation.txn], () => {
      return `T1 has committed, and has no final verdict of ${missing.join(", ") || "any tracker"}`;
    });
  }

  #name(level: number): string {
    return this.#history.scenario.levels[level] ?? "";
  }
}

const LOG = "the log of events";
const CLIENT = "the client";
/** Deliveries arrive in any order. */
const RECEIVER = "the webhooks";

/**
 * The log in the store is the source of losses and broken promises: every tracker publishes what
 * one of them recorded there. Each tracker is its own source for durability.
 */
function sourceOf({ by, tracker, verdict }: Report): string {
  if (by === "webhook") return RECEIVER;
  if (by === "event" && verdict !== "durable") return LOG;
  return tracker ?? CLIENT;
}

function isDurableReport({ verdict }: Report): boolean {
  return verdict === "durable";
}

/**
 * At another level it is reported absent by all that still know it, or was until it expired. Its
 * verdict at this level does not matter.
 */
function isLostOrBroken({ levels }: AttemptVerdicts, level: number): boolean {
  return levels.some(({ final, reports }, other) => {
    const known: Report["verdict"][] = [...final].filter((verdict) => verdict !== "expired");
    const last = reports.findLast(({ verdict }) => SETTLED.has(verdict));
    // Trackers have forgotten it, or its client never got a token to ask for it.
    if (known.length === 0 && last !== undefined) known.push(last.verdict);
    return (
      other !== level &&
      known.length > 0 &&
      known.every((verdict) => verdict === "lost" || verdict === "broken")
    );
  });
}

const SETTLED: ReadonlySet<Report["verdict"]> = new Set(["durable", "lost", "broken"]);

function isLoggedAsBroken({ reports }: Pick<Spoken, "reports">): boolean {
  return reports.some((report) => report.verdict === "broken" && [LOG, RECEIVER].includes(sourceOf(report)));
}

/**
 * It was reported as lost, and then as broken at every level: a lost transaction that comes back is
 * broken everywhere.
 */
function hasReturned({ levels }: AttemptVerdicts): boolean {
  return levels.some(({ lost }) => lost !== null) && isBrokenEverywhere(levels);
}

function isBrokenEverywhere(levels: AttemptVerdicts["levels"]): boolean {
  return levels.every(({ broken, final }) => broken !== null && !final.has("lost"));
}

function whoSaid({ reports }: Pick<Spoken, "reports">, verdict: string): string {
  return reports
    .flatMap((report) => (report.by === "final" && report.verdict === verdict ? [report.tracker ?? "?"] : []))
    .join(", ");
}

function blame(failure: Failure | null): string {
  if (failure === null) return "every failure has kept the level";
  return `${failure.kind} on ${failure.node} has not kept the level, but the promise was not reported as broken`;
}
