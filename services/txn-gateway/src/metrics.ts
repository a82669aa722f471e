// What the gateway counts.
import { MetricSet } from "@highwater/service";

export class Metrics extends MetricSet {
  readonly transactions = this.counter(
    "highwater_gateway_transactions_total",
    "Transactions by acknowledgement and outcome; the outcome of a failed one is its error code.",
  );
  readonly unknownOutcomes = this.counter(
    "highwater_gateway_unknown_outcomes_total",
    "Connections that died during COMMIT, by what the id was settled as.",
  );
  readonly reads = this.counter(
    "highwater_gateway_nearby_reads_total",
    "Reads that a replica of this region was asked for, by the role of the node that served them.",
  );
  readonly openEnds = this.counter(
    "highwater_gateway_open_transactions_ended_total",
    "Interactive transactions by how they ended.",
  );
  readonly refusals = this.counter(
    "highwater_gateway_refusals_total",
    "Requests that were refused before they reached a transaction, by error code.",
  );
  readonly exposureDelays = this.counter(
    "highwater_gateway_exposure_delays_total",
    "Fast transactions that were slowed down because a limit of exposure was near.",
  );
  readonly exposureRefusals = this.counter(
    "highwater_gateway_exposure_refusals_total",
    "Transactions that were refused at a limit of exposure, by its name.",
  );
}
