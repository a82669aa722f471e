// The store's pure rules alone: who is the primary, and where an epoch's log ends in its
// successor's history. For code that drives them without a database.
export { type Authority, decideAuthority } from "./authority.ts";
export { type Fork, type ForkFacts, forkOf } from "./fork.ts";
export { type MintRequest, type NodeReport } from "./port.ts";
