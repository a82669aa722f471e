// The answer of `failover-candidate --json`, for programs, and its text for people.
export { CandidateReport } from "./report.ts";
export { printReport } from "../cli/failover-candidate/print.ts";
