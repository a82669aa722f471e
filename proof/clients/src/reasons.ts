// Where the wire answers otherwise than PostgreSQL, and why. The contract wants each of these.
import { type Reason } from "./compare.ts";

export const REASONS: readonly Reason[] = [];
