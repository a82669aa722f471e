// Where the edge listens: for clients, with everything that a request passes before it is routed;
// and for operators.
import { join } from "node:path";
import { accessLog } from "./access-log.ts";
import { localReplies, OVER_RATE_STATUS } from "./errors.ts";
import { ADMIN, LIVING_GATEWAYS, LIVING_TRACKERS, POSTGRES, TRACES } from "./names.ts";
import { BUFFER, durationOf, routes } from "./routes.ts";
import { type Edge, type PostgresPort, postgresPorts } from "./source.ts";

type Fields = Readonly<Record<string, unknown>>;

export const CERTIFICATE_FILE = "certificate.json";
export const CERTIFICATE_NAME = "edge";

/** As the services: a request has so long to arrive. */
const REQUEST_TIMEOUT = "60s";
const HEADERS_KIB = 16;
const CLIENT_IDLE_TIMEOUT = "600s";
/** A stream's idle timer, beyond the timer of its route, which then speaks first. */
const IDLE_BEYOND_MS = 5_000;

const CONNECTION_MANAGER =
  "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: Fields = {
  name: "envoy.filters.http.router",
  typed_config: {
    "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
    suppress_envoy_headers: true,
  },
};

export function listeners(edge: Edge): Fields[] {
  return [
    publicListener(edge),
    ...postgresPorts(edge).map((field) => postgresListener(edge, field)),
    ...(edge.operators === undefined ? [] : [operatorListener(edge.operators)]),
  ];
}

/** A session stays at its gateway until one of the two sides ends it, however long it is idle. */
function postgresListener({ listen }: Edge, field: PostgresPort): Fields {
  const name = POSTGRES[field];
  return {
    name,
    address: { socket_address: { address: listen.address, port_value: listen[field] } },
    socket_options: CLIENTS_THAT_VANISH,
    ignore_global_conn_limit: false,
    ...(listen.postgresProxyProtocol === true && { listener_filters: [PROXY_PROTOCOL] }),
    filter_chains: [
      {
        filters: [
          {
            name: "envoy.filters.network.tcp_proxy",
            typed_config: {
              "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
              stat_prefix: name,
              cluster: name,
              idle_timeout: "0s",
              max_connect_attempts: CONNECT_ATTEMPTS,
              backoff_options: { base_interval: CONNECT_PAUSE },
            },
          },
        ],
      },
    ],
  };
}

const PROXY_PROTOCOL: Fields = {
  name: "envoy.filters.listener.proxy_protocol",
  typed_config: {
    "@type": "type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol",
  },
};

/** Nothing has been sent yet when a connection fails, so another gateway may be tried. */
const CONNECT_ATTEMPTS = 5;
/** At most, before the second attempt: by then the failed gateway is out of the pool. */
const CONNECT_PAUSE = "0.050s";

function publicListener(edge: Edge): Fields {
  const { address, port, tls } = edge.listen;
  return {
    name: "public",
    address: { socket_address: { address, port_value: port } },
    socket_options: CLIENTS_THAT_VANISH,
    ignore_global_conn_limit: false,
    filter_chains: [
      {
        ...(tls !== undefined && { transport_socket: tlsOf(edge.directory) }),
        transport_socket_connect_timeout: "10s",
        filters: [
          {
            name: "envoy.filters.network.http_connection_manager",
            typed_config: connectionManager(edge),
          },
        ],
      },
    ],
  };
}

/**
 * Linux: what a client has not acknowledged for a minute, and a silent connection that does not
 * answer three probes, is over. Streams are never idle, so one whose client vanished is noticed by
 * the first; what waits for a commit by the second.
 */
const CLIENTS_THAT_VANISH: readonly Fields[] = [
  { description: "SO_KEEPALIVE", level: 1, name: 9, int_value: 1, state: "STATE_PREBIND" },
  { description: "TCP_KEEPIDLE", level: 6, name: 4, int_value: 30, state: "STATE_PREBIND" },
  { description: "TCP_KEEPINTVL", level: 6, name: 5, int_value: 10, state: "STATE_PREBIND" },
  { description: "TCP_KEEPCNT", level: 6, name: 6, int_value: 3, state: "STATE_PREBIND" },
  { description: "TCP_USER_TIMEOUT", level: 6, name: 18, int_value: 60_000, state: "STATE_PREBIND" },
];

function connectionManager(edge: Edge): Fields {
  return {
    "@type": CONNECTION_MANAGER,
    stat_prefix: "public",
    // Whom a request comes from is what its connection says, or what the trusted proxies before the
    // edge say. No caller is one of us: else a caller could choose by headers what is repeated, and
    // for how long.
    use_remote_address: true,
    xff_num_trusted_hops: edge.trustedProxies,
    // A path is what it says: without detours, and without slashes in disguise.
    normalize_path: true,
    path_with_escaped_slashes_action: "REJECT_REQUEST",
    generate_request_id: true,
    always_set_request_id_in_response: true,
    server_header_transformation: "PASS_THROUGH",
    max_request_headers_kb: HEADERS_KIB,
    common_http_protocol_options: { idle_timeout: CLIENT_IDLE_TIMEOUT },
    http2_protocol_options: { max_concurrent_streams: 1_000 },
    request_timeout: REQUEST_TIMEOUT,
    request_headers_timeout: REQUEST_TIMEOUT,
    stream_idle_timeout: durationOf(edge.limits.answerMs + IDLE_BEYOND_MS),
    local_reply_config: localReplies(edge),
    access_log: [accessLog(edge.accessLog)],
    ...(edge.traces !== undefined && { tracing: tracing(edge.region) }),
    http_filters: [...rateLimits(edge), buffer(edge.limits.gatewayBodyBytes), ROUTER],
    route_config: {
      name: "public",
      virtual_hosts: [{ name: "public", domains: ["*"], routes: routes(edge) }],
    },
  };
}

/**
 * A body is taken in as a whole: no service waits for a slow client, and one that is too large gets
 * to none.
 */
function buffer(max_request_bytes: number): Fields {
  return {
    name: BUFFER,
    typed_config: {
      "@type": "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer",
      max_request_bytes,
    },
  };
}

/** One address first, so that what is refused to it is not taken from all. */
function rateLimits({ limits }: Edge): Fields[] {
  const { requestsPerSecond: all, requestsPerSecondOfAddress: each } = limits;
  const filter = (name: string, perSecond: number, more: Fields): Fields => ({
    name,
    typed_config: {
      "@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
      stat_prefix: name,
      filter_enabled: { default_value: { numerator: 100 } },
      filter_enforced: { default_value: { numerator: 100 } },
      ...more,
      ...(perSecond > 0 && { token_bucket: bucket(perSecond) }),
    },
  });
  const ofAddress = {
    status: { code: 429 },
    rate_limits: [
      { actions: [{ masked_remote_address: { v4_prefix_mask_len: 32, v6_prefix_mask_len: 64 } }] },
    ],
    always_consume_default_token_bucket: false,
    max_dynamic_descriptors: ADDRESSES_MAX,
  };
  return [
    ...(each === undefined
      ? []
      : [
          filter("edge_rate_of_address", 0, {
            ...ofAddress,
            descriptors: [{ entries: [{ key: "masked_remote_address" }], token_bucket: bucket(each) }],
          }),
        ]),
    ...(all === undefined ? [] : [filter("edge_rate", all, { status: { code: OVER_RATE_STATUS } })]),
  ];
}

/** Those with the latest report. */
const ADDRESSES_MAX = 10_000;
const FILLS_PER_SECOND = 10;

/** Filled ten times a second; holds what a second brings. */
function bucket(perSecond: number): Fields {
  const fills = perSecond % FILLS_PER_SECOND === 0 ? FILLS_PER_SECOND : 1;
  return {
    max_tokens: perSecond,
    tokens_per_fill: perSecond / fills,
    fill_interval: durationOf(1_000 / fills),
  };
}

/**
 * The certificate comes from a file beside the bootstrap, which makes Envoy take a renewed one
 * without a restart.
 */
function tlsOf(directory: string): Fields {
  return {
    name: "envoy.transport_sockets.tls",
    typed_config: {
      "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
      common_tls_context: {
        tls_params: { tls_minimum_protocol_version: "TLSv1_2" },
        alpn_protocols: ["h2", "http/1.1"],
        tls_certificate_sds_secret_configs: [
          {
            name: CERTIFICATE_NAME,
            sds_config: {
              path_config_source: { path: join(directory, CERTIFICATE_FILE) },
              resource_api_version: "V3",
            },
          },
        ],
      },
    },
  };
}

/**
 * The span of the edge lies between the client's and the gateway's; whether a trace is kept, the
 * collector decides.
 */
function tracing(region: string): Fields {
  return {
    spawn_upstream_span: false,
    provider: {
      name: "envoy.tracers.opentelemetry",
      typed_config: {
        "@type": "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
        service_name: "highwater-edge",
        http_service: {
          http_uri: { uri: "http://collector/v1/traces", cluster: TRACES, timeout: "2s" },
        },
        resource_detectors: [
          {
            name: "envoy.tracers.opentelemetry.resource_detectors.static_config",
            typed_config: {
              "@type":
                "type.googleapis.com/envoy.extensions.tracers.opentelemetry.resource_detectors.v3.StaticConfigResourceDetectorConfig",
              attributes: { "cloud.region": region },
            },
          },
        ],
      },
    },
  };
}

/** What a load balancer in front, and Prometheus, may ask the edge itself. */
function operatorListener({ address, port }: { readonly address: string; readonly port: number }): Fields {
  const readiness: Fields = {
    name: "envoy.filters.http.health_check",
    typed_config: {
      "@type": "type.googleapis.com/envoy.extensions.filters.http.health_check.v3.HealthCheck",
      pass_through_mode: false,
      headers: [{ name: ":path", string_match: { exact: "/readyz" } }],
      // That they live, not that they are ready: without a primary none anywhere is, and each edge
      // is as good as before.
      cluster_min_healthy_percentages: { [LIVING_GATEWAYS]: { value: 1 }, [LIVING_TRACKERS]: { value: 1 } },
    },
  };
  return {
    name: "operators",
    address: { socket_address: { address, port_value: port } },
    filter_chains: [
      {
        filters: [
          {
            name: "envoy.filters.network.http_connection_manager",
            typed_config: {
              "@type": CONNECTION_MANAGER,
              stat_prefix: "operators",
              http_filters: [readiness, ROUTER],
              route_config: {
                name: "operators",
                virtual_hosts: [{ name: "operators", domains: ["*"], routes: OPERATOR_ROUTES }],
              },
            },
          },
        ],
      },
    ],
  };
}

const OPERATOR_ROUTES: readonly Fields[] = [
  {
    match: { path: "/healthz" },
    direct_response: { status: 200, body: { inline_string: '{"status":"ok"}' } },
  },
  {
    match: { path: "/metrics", headers: [{ name: ":method", string_match: { exact: "GET" } }] },
    route: { cluster: ADMIN, prefix_rewrite: "/stats/prometheus" },
  },
  { match: { prefix: "/" }, direct_response: { status: 404 } },
];
