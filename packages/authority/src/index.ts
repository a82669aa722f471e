// Names the primary by ancestry, by a lease or by operators' commands, and finds where the log of
// one epoch ends in the history of the next. A store provides the nodes' reports; the services act
// on the answer.
export { type Authority, decideAuthority } from "./ancestry.ts";
export { type Fork, forkOf, mayLack } from "./fork.ts";
export { type Candidates } from "./lease/candidates.ts";
export { type LeaseSource, type LeaseTerm, type LeaseView } from "./lease/view.ts";
export { type NodeReport, type NodeSource, type OperatorCommand } from "./nodes.ts";
export {
  AUTHORITY_VARIABLES,
  type AuthoritySettings,
  describeAuthority,
  makeAuthorityRule,
  readAuthority,
} from "./settings.ts";
export { type AuthorityRule, AuthorityWatcher } from "./watch.ts";
