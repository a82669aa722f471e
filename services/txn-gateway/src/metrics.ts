// What the gateway counts.
import { GATEWAY, MetricSet } from "@highwater/service";

export class Metrics extends MetricSet {
  readonly transactions = this.counter(GATEWAY.transactions);
  readonly commit = this.histogram(GATEWAY.commit);
  readonly store = this.histogram(GATEWAY.store);
  readonly unknownOutcomes = this.counter(GATEWAY.unknownOutcomes);
  readonly unknownOutcomeTime = this.histogram(GATEWAY.unknownOutcomeTime);
  readonly reads = this.counter(GATEWAY.reads);
  readonly openEnds = this.counter(GATEWAY.openEnds);
  readonly refusals = this.counter(GATEWAY.refusals);
  readonly poolWait = this.histogram(GATEWAY.poolWait);
  readonly durabilityLag = this.histogram(GATEWAY.durabilityLag);
  readonly exposureDelays = this.counter(GATEWAY.exposureDelays);
  readonly exposureRefusals = this.counter(GATEWAY.exposureRefusals);
  readonly wireAfter = this.histogram(GATEWAY.wireAfter);
  readonly wireAnswers = this.counter(GATEWAY.wireAnswers);
  /** Unknown outcomes that are being settled now. */
  settling = 0;
}
