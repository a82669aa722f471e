// Differences between the wire's answers and PostgreSQL's that the contract requires, with reasons.
import { type Reason } from "./compare.ts";

export const REASONS: readonly Reason[] = [];
