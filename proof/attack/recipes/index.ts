// Every recipe. Those with a failover come last, because others look at the primary.
import { type Recipe } from "../recipe.ts";
import { CONTENTS } from "./contents.ts";
import { DOORS } from "./doors.ts";
import { EXHAUSTION } from "./exhaustion.ts";
import { LOCKS } from "./locks.ts";
import { READING } from "./reading.ts";
import { RECEIPTS } from "./receipts.ts";
import { ROLES } from "./roles.ts";
import { SESSIONS } from "./sessions.ts";
import { SETTLING } from "./settling.ts";
import { TICKETS } from "./tickets.ts";
import { TOKENS } from "./tokens.ts";
import { WIRE } from "./wire.ts";
import { WIRE_READS } from "./wire-reads.ts";
import { WIRE_SESSIONS } from "./wire-sessions.ts";

export const RECIPES: readonly Recipe[] = [
  ...READING,
  ...SETTLING,
  ...RECEIPTS,
  ...SESSIONS,
  ...ROLES,
  ...EXHAUSTION,
  ...DOORS,
  ...WIRE,
  ...WIRE_READS,
  ...WIRE_SESSIONS,
  ...TICKETS,
  ...TOKENS,
  ...LOCKS,
  ...CONTENTS,
];
