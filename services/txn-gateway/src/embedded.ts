// The gateway without its HTTP server, for a program that plays the world around it: the tracker's
// simulation.
export { type Config, loadConfig } from "./config.ts";
export { type Deps, type HttpReply, type HttpStream, type ServiceTransport } from "./deps.ts";
export { Gateway } from "./gateway.ts";
export { type HeldResponse } from "./attempts/transactions.ts";
export { type Accepted } from "./txn/request.ts";
