// What commands about a failover share: what nodes and trackers answer, the history that they
// belong to, the report of `failover-candidate`, and the operator's command.
export {
  askMemories,
  askNodes,
  askPreview,
  hostOf,
  type NodeAnswers,
  type Remembered,
  remembering,
  type TrackerCaller,
} from "../cli/failover-candidate/ask.ts";
export { printReport } from "../cli/failover-candidate/print.ts";
export { strangersOf } from "./candidate.ts";
export { type AuthorityCommand, authorityCommand, writeCommand } from "./command.ts";
export { findNodes, type KnownEpochs, knownEpochs, type NodeFinding, notEndedBy } from "./history.ts";
export { CandidateReport, countedBy, lossOf, type TrackerPreviews } from "./report.ts";
export { type FailoverPreview } from "./wire.ts";
