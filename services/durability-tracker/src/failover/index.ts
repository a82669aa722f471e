// What `failover-candidate --json` answers, for programs that read it, and how it is shown to
// people.
export { CandidateReport } from "./report.ts";
export { printReport } from "../cli/failover-candidate/print.ts";
