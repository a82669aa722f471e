// The wire contract of Highwater: what a gateway, a tracker and a client say to each other. Imports
// nothing of ours.
export * from "./ids.ts";
export * from "./token.ts";
export * from "./errors.ts";
export * from "./problem.ts";
export * from "./headers.ts";
export { type Evidence, EvidenceBody } from "./problem-details.ts";
export * from "./problem-schema.ts";
export * from "./redo.ts";
export * from "./schemas.ts";
export * from "./verdicts.ts";
export * from "./value.ts";
export * from "./announcements.ts";
export * from "./contents.ts";
export * from "./commit-order.ts";
export * from "./batch.ts";
export * from "./tickets.ts";
export * from "./durability.ts";
export * from "./events.ts";
export * from "./operators.ts";
export * from "./webhooks.ts";
export * from "./epochs.ts";
export * from "./topology.ts";
export * from "./topology-faults.ts";
export { type AddressRange, isInRange, parseAddressRange } from "./address-range.ts";
export { validate, type Validation } from "./validate.ts";
export { type Static, type TSchema } from "typebox";
