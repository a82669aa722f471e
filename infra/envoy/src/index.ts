// The edge of a region as files for Envoy.
export { BOOTSTRAP_FILE, edgeFiles } from "./bootstrap.ts";
export {
  DEFAULT_LIMITS,
  type Edge,
  type EdgeGateway,
  type EdgeNode,
  type EdgeRegion,
  EdgeSource,
  readSource,
} from "./source.ts";
