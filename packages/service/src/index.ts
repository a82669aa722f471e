// What the gateway and the tracker share as services: authentication, settings, metrics and errors
// over HTTP.
export { type Caller } from "./caller.ts";
export { Callers, type CallersOptions } from "./callers.ts";
export { Admission, type AdmissionDefaults, type Admitted } from "./identity/admission.ts";
export {
  DeploymentKeys,
  type DeploymentKeysOptions,
  MAC_BYTES,
  makeDeploymentKeys,
  type Purpose,
  type Signature,
} from "./deployment-keys/deployment-keys.ts";
export { ContentsKeys, makeContentsKeys, type SealedAbout } from "./deployment-keys/contents-keys.ts";
export { ScheduleCheck } from "./deployment-keys/schedule-check.ts";
export {
  DEPLOYMENT_SETTINGS,
  type DeploymentKey,
  describeSchedule,
  type Schedule,
} from "./deployment-keys/settings.ts";
export { AnonymousAuthenticator, ANYBODY } from "./identity/anonymous.ts";
export { type AuthenticatorDeps, makeAuthenticator } from "./identity/authenticator.ts";
export { describeKey } from "./identity/describe-key.ts";
export { FELLOW_SERVICE, InternalAuthenticator, internalCredential } from "./identity/internal.ts";
export { KeyRing, type KeyRingOptions } from "./identity/key-ring.ts";
export {
  fingerprintOf,
  hashSecret,
  isSecret,
  KEY_PREFIX,
  makeKeyText,
  parseFingerprint,
  parseKeyText,
} from "./identity/key-text.ts";
export {
  type Authenticator,
  DEFAULT_LIMITS,
  type KeyLimits,
  mayReadOf,
  NOBODY,
  ownerTag,
  type Principal,
  requireScope,
  requireSomeScope,
  type Scope,
  SCOPES,
  sessionPrincipal,
} from "./identity/principal.ts";
export { RefusedAddresses } from "./identity/refused-addresses.ts";
export {
  identityVariables,
  type IdentitySettings,
  isAnonymous,
  type JwtSettings,
  readIdentity,
} from "./identity/settings.ts";
export { LOG_EVENTS } from "./log-events.ts";
export { isLogged, jsonLog, type Log, type LogEntry, type LogFields, logReserved } from "./log.ts";
export {
  CATALOGUE,
  Counter,
  type Distribution,
  type Family,
  GATEWAY,
  Histogram,
  HistogramSeries,
  type Metric,
  type MetricKind,
  MetricSet,
  PROCESS,
  registerProcess,
  renderFamilies,
  type Sample,
  type ServiceIdentity,
  TEXT_FORMAT,
  TRACKER,
  WEBHOOKS,
} from "./metrics/index.ts";
export {
  type FinishedSpan,
  noteFailure,
  readTelemetry,
  type RequestTrace,
  type SpanContext,
  startTelemetry,
  type Telemetry,
  TELEMETRY_VARIABLES,
  traceFields,
  type TracePart,
  Tracer,
} from "./telemetry/index.ts";
export { type DocumentOptions, type ErrorShape, makeOpenApi, type Message } from "./openapi/document.ts";
export { ERROR_OPERATIONS } from "./openapi/errors.ts";
export { healthOperations, type HealthTexts } from "./openapi/health.ts";
export {
  BODY_ERRORS,
  CALLER_ERRORS,
  type Example,
  type Operation,
  type Parameter,
  type ResponseHeader,
  type Success,
} from "./openapi/operation.ts";
export { type Json, Schemas } from "./openapi/schemas.ts";
export { callerOf, installCallers, traced } from "./plugins/caller.ts";
export { endRequest } from "./plugins/trace.ts";
export { responseOf } from "./plugins/cors.ts";
export {
  bodyTooLarge,
  installErrorHandling,
  makeErrorHandler,
  problemOf,
  refuseConnection,
  sendProblem,
} from "./plugins/error-handler.ts";
export { installJsonBody } from "./plugins/json-body.ts";
export { isForCallers } from "./plugins/open-door.ts";
export { installRouteTable, type Route, routesOf } from "./plugins/route-table.ts";
export { type ProcessOptions, type ProcessContext, runProcess, type Served } from "./process.ts";
export { makeServer, type ServerOptions } from "./server.ts";
export {
  choice,
  flag,
  hostOf,
  integer,
  isLoopback,
  listOf,
  name,
  origins,
  parseTopology,
  readText,
  secret,
  text,
  topology,
  urls,
} from "./settings/readers.ts";
export {
  type About,
  about,
  ABOUT_SHARED,
  type AboutVariables,
  aboutIdentity,
  NONE,
  referenceRows,
  REQUIRED,
} from "./settings/reference.ts";
export {
  explainTls,
  LISTENER_TLS_SETTINGS,
  serverCertificate,
  tlsAuthority,
  tlsFaults,
  trustAuthority,
} from "./settings/tls.ts";
export { TopologyFile, topologyPath, type TopologyWatcher } from "./topology-file.ts";
export {
  type Env,
  Faults,
  type Loaded,
  type Range,
  rangesOf,
  type ReadFile,
  readSettings,
  type Setting,
  type SettingsTable,
  type ValuesOf,
  variablesOf,
} from "./settings/setting.ts";
