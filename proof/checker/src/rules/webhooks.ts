// Each loss must reach its owner's endpoint. No endpoint receives a transaction of another owner,
// or a body that was changed on the way. The `fate` rules judge whether deliveries are true, as for
// all reports.
import { type Findings } from "../findings.ts";
import { type Delivery, type Subscription, type TxnId } from "../history.ts";
import { getOrMake } from "../maps.ts";
import { type History, isPresent, isUnreceipted, serviceIdOf, type Transaction } from "../model.ts";
import { type AttemptVerdicts, type Verdicts } from "../verdicts.ts";

const BODY_BYTES = 20_000;
/** Two connections may end and begin in another order than the machine shows. */
const OVERLAP_MS = 100;
/**
 * For this long after a failure, trackers may follow two primaries, or a tracker may have lost its
 * claim.
 */
const CLAIMS_LOST_MS = 60_000;
const STOPPED_TRACKER = /pause_tracker$/;

export function judgeWebhooks(history: History, verdicts: Verdicts, findings: Findings): void {
  const unnamed = new UnnamedIds(history);
  for (const delivery of history.deliveries) judgeDelivery(history, delivery, { unnamed, findings });
  const messages = Map.groupBy(history.deliveries, ({ endpoint, message }) => `${endpoint} ${message}`);
  for (const repeated of messages.values()) {
    judgeRepetitions(repeated, findings);
    judgeAtOnce(history, repeated, findings);
  }
  judgeEvents(history, findings);
  judgeLosses(history, verdicts, findings);
}

/**
 * Gateways choose ids if clients do not. A client without an answer never learns such an id, so an
 * owner may get as many unknown ids as it lacks answers.
 */
class UnnamedIds {
  readonly #left = new Map<string, number>();
  readonly #known = new Set<TxnId>();

  constructor({ transactions }: History) {
    for (const transaction of transactions) {
      const { answer, invocation } = transaction;
      const { owner, ack } = invocation;
      const isOpen = answer === null || answer.outcome === "unknown";
      if (owner !== undefined && ack === "commit" && isOpen && isUnreceipted(transaction))
        this.#left.set(owner, (this.#left.get(owner) ?? 0) + 1);
    }
  }

  mayBe(txn: TxnId, owner: string): boolean {
    if (this.#known.has(txn)) return true;
    const left = this.#left.get(owner) ?? 0;
    if (left === 0) return false;
    this.#left.set(owner, left - 1);
    this.#known.add(txn);
    return true;
  }
}

function judgeDelivery(
  { subscriptions, byId }: History,
  delivery: Delivery,
  { unnamed, findings }: { readonly unnamed: UnnamedIds; readonly findings: Findings },
): void {
  const { endpoint, message, event, bytes, isSigned } = delivery;
  const subscription = subscriptions.get(endpoint);
  const named = [...new Set(delivery.transactions.map(({ txn }) => txn))];
  if (!isSigned)
    findings.violation("webhook.unsigned", named, () => `${message} is not signed for ${endpoint}`);
  if (bytes >= BODY_BYTES)
    findings.violation("webhook.too-long", named, () => `${message} has ${String(bytes)} bytes`);
  if (subscription?.events.includes(event) !== true)
    findings.violation(
      "webhook.unasked",
      named,
      () => `${endpoint} was sent ${event}, and has not asked for it`,
    );
  for (const txn of named) {
    const invocation = byId.get(txn)?.invocation;
    if (invocation === undefined && subscription !== undefined && unnamed.mayBe(txn, subscription.owner)) {
      findings.ambiguity("delivery_without_answer");
    } else if (invocation?.owner === undefined || invocation.owner !== subscription?.owner)
      findings.violation("webhook.foreign", [txn], () => {
        return `${endpoint} of ${subscription?.owner ?? "nobody"} was sent T1 of ${invocation?.owner ?? "nobody"}`;
      });
    else if (!passes(subscription, invocation.metadata))
      findings.violation("webhook.unasked", [txn], () => `T1 does not pass the filter of ${endpoint}`);
  }
}

function passes({ filter }: Subscription, metadata: Readonly<Record<string, string>> = {}): boolean {
  return Object.entries(filter).every(([name, value]) => metadata[name] === value);
}

/**
 * A loss that a failure undid is recorded again, with ids of another epoch. Nothing else may
 * differ.
 */
function judgeRepetitions([first, ...others]: readonly Delivery[], findings: Findings): void {
  if (first === undefined) return;
  for (const other of others) {
    if (other.digest === first.digest) continue;
    const isSame = contentsOf(first) === contentsOf(other);
    if (isSame && epochOf(first.sequence?.first) !== epochOf(other.sequence?.first)) continue;
    const named = [
      ...new Set([first, other].flatMap(({ transactions }) => transactions.map(({ txn }) => txn))),
    ];
    findings.violation("webhook.changed", named, () => {
      const what = isSame ? "other words" : "other contents";
      return `${first.message} was sent to ${first.endpoint} again, with ${what}`;
    });
  }
}

function contentsOf({ event, transactions, promises }: Delivery): string {
  return JSON.stringify([
    event,
    transactions.map(({ txn, attempt }) => `${txn} ${attempt}`).sort(),
    promises.map(({ level, epoch, to }) => `${level} ${epoch} ${to}`).sort(),
  ]);
}

function judgeAtOnce(history: History, deliveries: readonly Delivery[], findings: Findings): void {
  for (const [at, later] of deliveries.entries()) {
    const earlier = deliveries.slice(0, at).find(({ untilMs }) => untilMs > later.atMs + OVERLAP_MS);
    if (earlier === undefined || mayHaveTwoSenders(history, earlier.atMs, later.atMs)) continue;
    findings.violation("webhook.at-once", [], () => {
      const sinceMs = String(Math.round(later.atMs - earlier.atMs));
      return `${later.message} was sent to ${later.endpoint} again after ${sinceMs} ms, while it was being sent`;
    });
  }
}

/**
 * A tracker was paused while it sent; or its claim was lost with the history or on the wrong side
 * of a split; or a wrong clock ended it.
 */
function mayHaveTwoSenders({ faults, failures, clocks }: History, fromMs: number, toMs: number): boolean {
  const reached = (one: { readonly atMs: number; readonly untilMs: number }): boolean =>
    one.atMs <= toMs && one.untilMs >= fromMs - CLAIMS_LOST_MS;
  return (
    failures.some(({ atMs }) => reached({ atMs, untilMs: atMs })) ||
    faults.some((fault) => STOPPED_TRACKER.test(fault.kind) && reached(fault)) ||
    clocks.some((clock) => clock.of === "database" && reached(clock))
  );
}

/** An id names one event, and a message's events are in order. */
function judgeEvents({ deliveries }: History, findings: Findings): void {
  const known = new Map<string, string>();
  for (const { message, sequence, transactions, promises } of deliveries) {
    const named = [
      ...transactions.map(({ event, txn, attempt }) => ({ event, what: `${txn} in ${attempt}` })),
      ...promises.map(({ event, level, epoch }) => ({ event, what: `${level} in ${epoch}` })),
    ];
    for (const { event, what } of named) {
      const before = getOrMake(known, event, () => what);
      if (before !== what)
        findings.violation("webhook.event", [], () => `event ${event} is of ${before}, and of ${what}`);
      if (sequence !== null && (compare(event, sequence.first) < 0 || compare(event, sequence.last) > 0))
        findings.violation("webhook.event", [], () => {
          return `event ${event} is not between ${sequence.first} and ${sequence.last} of its message ${message}`;
        });
    }
    const fallsAt = transactions.findIndex(
      ({ event }, at) => compare(transactions[at - 1]?.event ?? event, event) > 0,
    );
    if (fallsAt >= 0)
      findings.violation("webhook.event", [], () => {
        return `event ${transactions[fallsAt]?.event ?? ""} stands behind a later one in ${message}`;
      });
  }
}

function compare(one: string, other: string): number {
  const [a = [], b = []] = [one, other].map((id) => id.split(".").slice(0, 2).map(Number));
  return (a[0] ?? 0) - (b[0] ?? 0) || (a[1] ?? 0) - (b[1] ?? 0);
}

function epochOf(event: string | undefined): string | undefined {
  return event?.split(".")[2];
}

/** If an owner subscribes to losses, its endpoint accepts each of them in the end. */
function judgeLosses(history: History, verdicts: Verdicts, findings: Findings): void {
  const { subscriptions, deliveries, transactions } = history;
  const taken = new Map<string, Set<string>>();
  for (const { endpoint, answer, transactions: named } of deliveries) {
    if (answer === null || answer < 200 || answer > 299) continue;
    const ofEndpoint = getOrMake(taken, endpoint, () => new Set<string>());
    for (const { txn, attempt, verdicts: said } of named)
      if (Object.values(said).some(isLostOrBroken)) ofEndpoint.add(`${txn} ${attempt}`);
  }
  for (const { endpoint, owner, events, filter, atMs } of subscriptions.values()) {
    if (!events.includes("transaction.lost") || Object.keys(filter).length > 0) continue;
    for (const transaction of transactions) {
      const { owner: own, atMs: begunAtMs } = transaction.invocation;
      const txn = serviceIdOf(transaction);
      if (own !== owner || begunAtMs < atMs) continue;
      for (const ofAttempt of verdicts.of(transaction)) {
        if (
          !isLost(transaction, ofAttempt) ||
          taken.get(endpoint)?.has(`${txn} ${ofAttempt.attempt ?? ""}`) === true
        )
          continue;
        findings.violation("webhook.missing", [txn], () => {
          const tried = deliveries.filter((each) => each.endpoint === endpoint && names(each, txn)).length;
          return `T1 of ${ofAttempt.attempt ?? "no epoch"} is lost, and ${endpoint} of ${owner} has taken none of ${String(tried)} deliveries about it`;
        });
      }
    }
  }
}

function names({ transactions }: Delivery, txn: string): boolean {
  return transactions.some((each) => each.txn === txn);
}

/**
 * A source reported this attempt as lost or broken, the final state lacks it, and no tracker
 * reports it as durable.
 */
function isLost(transaction: Transaction, { attempt, levels }: AttemptVerdicts): boolean {
  if (attempt === null || isPresent(transaction, attempt) === true) return false;
  const reports = levels.flatMap((spoken) => spoken.reports);
  const strongest = levels.at(-1)?.final;
  return (
    strongest?.has("durable") !== true &&
    reports.some(
      (report) => report.by !== "webhook" && report.attempt !== null && isLostOrBroken(report.verdict),
    )
  );
}

function isLostOrBroken(verdict: string): boolean {
  return verdict === "lost" || verdict === "broken";
}
