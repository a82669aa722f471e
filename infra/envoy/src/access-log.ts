// One line of JSON for each request when it has ended. No queries, no credentials, no bodies: a
// path names a transaction at most.

type Fields = Readonly<Record<string, unknown>>;

const LINE = {
  time: "%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%",
  event: "request",
  method: "%REQ(:METHOD)%",
  path: "%PATH(NQ:PATH)%",
  protocol: "%PROTOCOL%",
  status: "%RESPONSE_CODE%",
  /**
   * Envoy's words for what went wrong, and where it came from: `via_upstream` is a service's own
   * answer.
   */
  flags: "%RESPONSE_FLAGS%",
  details: "%RESPONSE_CODE_DETAILS%",
  durationMs: "%DURATION%",
  /** Until the service's answer began. */
  answerMs: "%RESPONSE_DURATION%",
  requestBytes: "%BYTES_RECEIVED%",
  responseBytes: "%BYTES_SENT%",
  cluster: "%UPSTREAM_CLUSTER%",
  upstream: "%UPSTREAM_HOST%",
  attempts: "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
  client: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
  tls: "%DOWNSTREAM_TLS_VERSION%",
  userAgent: "%REQ(USER-AGENT):200%",
  requestId: "%REQ(X-REQUEST-ID)%",
  traceId: "%TRACE_ID%",
  /** As the request brought it, where the edge itself makes no spans. */
  traceparent: "%REQ(TRACEPARENT):60%",
};

export function accessLog(path: string): Fields {
  return {
    name: "envoy.access_loggers.file",
    typed_config: {
      "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
      path,
      log_format: { json_format: LINE },
    },
  };
}
