// The pools that requests can go to. Requests leave a pool for the next region only when none of
// its services is ready. Readiness is a preference: if no service at all is ready, as during a
// failover, Envoy asks all of them, since a gateway's own refusal says more than the edge could.
import { isIP } from "node:net";
import {
  ADMIN,
  endingOf,
  GATEWAYS,
  LIVING_GATEWAYS,
  LIVING_TRACKERS,
  pinnedTo,
  POSTGRES,
  TRACES,
  TRACKERS,
} from "./names.ts";
import {
  type Edge,
  type EdgeGateway,
  type EdgeNode,
  type EdgeRegion,
  type PostgresPort,
  postgresPorts,
} from "./source.ts";

type Fields = Readonly<Record<string, unknown>>;

const CONNECT_TIMEOUT = "2s";
/**
 * The services keep theirs for 75 s: the side that closes an idle connection must be the one that
 * would use it.
 */
const IDLE_TIMEOUT = "60s";
/** Above the services' own limits: waiting transactions, and streams of marks and events. */
const IN_FLIGHT_MAX = 30_000;
const RETRIES_MAX = 1_000;

export function clusters(edge: Edge): Fields[] {
  return [
    pool(GATEWAYS, edge, ({ gateways }) => gateways),
    pool(TRACKERS, edge, ({ trackers }) => trackers),
    ...postgresPorts(edge).map((field) => postgres(edge, field)),
    living(LIVING_GATEWAYS, edge, ({ gateways }) => gateways),
    living(LIVING_TRACKERS, edge, ({ trackers }) => trackers),
    ...edge.regions.flatMap(({ name: region, gateways }) =>
      gateways.flatMap((gateway) => [pinned(edge, region, gateway), ending(gateway)]),
    ),
    admin(edge.adminSocket),
    ...(edge.traces === undefined ? [] : [traces(edge.traces)]),
  ];
}

function pool(
  name: string,
  edge: Edge,
  nodesOf: (region: EdgeRegion) => readonly EdgeGateway[],
  { endpointOf, failuresMax = 5 }: { readonly endpointOf?: EndpointOf; readonly failuresMax?: number } = {},
): Fields {
  const localities = localitiesOf(edge.regions, nodesOf);
  const most = Math.max(...localities.map(({ nodes }) => nodes.length));
  return {
    // With it one ready node of a region counts as all of the region.
    ...service(edge, name, localities, { policy: { overprovisioning_factor: 100 * most }, endpointOf }),
    lb_policy: "LEAST_REQUEST",
    common_lb_config: { healthy_panic_threshold: { value: 1 } },
    health_checks: checks("/readyz", "1s"),
    outlier_detection: {
      // Only failures of connections count. The services' own 5xx are answers: another region
      // cannot help one that is at its limit, or whose primary is gone.
      split_external_local_origin_errors: true,
      consecutive_local_origin_failure: failuresMax,
      enforcing_consecutive_local_origin_failure: 100,
      enforcing_consecutive_5xx: 0,
      enforcing_consecutive_gateway_failure: 0,
      enforcing_success_rate: 0,
      enforcing_local_origin_success_rate: 0,
      interval: "1s",
      base_ejection_time: "5s",
      max_ejection_time: "30s",
      max_ejection_percent: 100,
    },
  };
}

/** Checks only whether they live, for the edge's own readiness. */
function living(name: string, edge: Edge, nodesOf: (region: EdgeRegion) => readonly EdgeGateway[]): Fields {
  return {
    ...service(edge, name, localitiesOf(edge.regions, nodesOf)),
    health_checks: checks("/healthz", "2s"),
  };
}

/** The interval is the same without requests. */
function checks(path: string, interval: string): Fields[] {
  return [
    {
      timeout: "2s",
      interval,
      no_traffic_interval: interval,
      no_traffic_healthy_interval: interval,
      unhealthy_threshold: 2,
      healthy_threshold: 1,
      http_health_check: { path },
    },
  ];
}

/**
 * Takes the connections of PostgreSQL clients, by the readiness that gateways report over HTTP.
 * Each begins with a header that has the client's address; then its bytes pass as they are. The
 * checks send no header, and speak TLS where the services do.
 */
function postgres(edge: Edge, field: PostgresPort): Fields {
  const { transport_socket: tls, ...cluster } = pool(
    POSTGRES[field],
    edge,
    ({ gateways }) => gateways.filter((gateway) => gateway[field] !== undefined),
    {
      endpointOf: ({ address, port, [field]: postgresPort = port }) => ({
        ...at({ address, port: postgresPort }),
        health_check_config: { port_value: port },
      }),
      // A gateway that drains stops listening here before a check sees it. It has the fewest
      // connections then, so the next attempt would choose it again.
      failuresMax: 1,
    },
  );
  const match = { isCheck: true };
  return {
    ...cluster,
    transport_socket: CLIENT_NAMED,
    transport_socket_matches: [{ name: "checks", match, transport_socket: tls ?? PLAIN }],
    health_checks: checks("/readyz", "1s").map((check) => ({
      ...check,
      transport_socket_match_criteria: match,
    })),
  };
}

const PLAIN: Fields = {
  name: "envoy.transport_sockets.raw_buffer",
  typed_config: {
    "@type": "type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
  },
};
/** The gateway needs a client's address for the limit of wrong passwords. */
const CLIENT_NAMED: Fields = {
  name: "envoy.transport_sockets.upstream_proxy_protocol",
  typed_config: {
    "@type":
      "type.googleapis.com/envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
    config: { version: "V2" },
    transport_socket: PLAIN,
  },
};

function localitiesOf(
  regions: readonly EdgeRegion[],
  nodesOf: (region: EdgeRegion) => readonly EdgeGateway[],
): Locality[] {
  return regions
    .map((region) => ({ region: region.name, nodes: nodesOf(region) }))
    .filter(({ nodes }) => nodes.length > 0);
}

/**
 * Has no checks of readiness: open transactions can be ended on a gateway that can take nothing
 * new.
 */
function pinned(edge: Edge, region: string, gateway: EdgeNode): Fields {
  return service(edge, pinnedTo(gateway.name), [{ region, nodes: [gateway] }]);
}

function ending({ name }: EdgeNode): Fields {
  return {
    name: endingOf(name),
    connect_timeout: CONNECT_TIMEOUT,
    lb_policy: "CLUSTER_PROVIDED",
    cluster_type: {
      name: "envoy.clusters.aggregate",
      typed_config: {
        "@type": "type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig",
        clusters: [pinnedTo(name), GATEWAYS],
      },
    },
  };
}

interface Locality {
  readonly region: string;
  readonly nodes: readonly EdgeGateway[];
}

type EndpointOf = (node: EdgeGateway) => Fields;

function service(
  edge: Edge,
  name: string,
  localities: readonly Locality[],
  {
    policy = {},
    endpointOf = at,
  }: { readonly policy?: Fields; readonly endpointOf?: EndpointOf | undefined } = {},
): Fields {
  const addresses = localities.flatMap(({ nodes }) => nodes.map(({ address }) => address));
  const { serviceAuthority: authority, sourceAddress } = edge;
  return {
    name,
    ...(sourceAddress !== undefined && {
      upstream_bind_config: { source_address: { address: sourceAddress, port_value: 0 } },
    }),
    ...(authority !== undefined && { transport_socket: tlsTo(addresses, authority) }),
    ...discovery(addresses),
    connect_timeout: CONNECT_TIMEOUT,
    load_assignment: {
      cluster_name: name,
      policy,
      endpoints: localities.map(({ region, nodes }, priority) => ({
        priority,
        locality: { region },
        lb_endpoints: nodes.map((node) => ({ endpoint: { ...endpointOf(node), hostname: node.name } })),
      })),
    },
    circuit_breakers: {
      thresholds: [
        {
          max_connections: IN_FLIGHT_MAX,
          max_pending_requests: IN_FLIGHT_MAX,
          max_requests: IN_FLIGHT_MAX,
          max_retries: RETRIES_MAX,
        },
      ],
    },
    // Keepalive notices a host that vanished and sends nothing more after 25 s.
    upstream_connection_options: {
      tcp_keepalive: { keepalive_time: 10, keepalive_interval: 5, keepalive_probes: 3 },
    },
    typed_extension_protocol_options: {
      "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        common_http_protocol_options: { idle_timeout: IDLE_TIMEOUT },
        explicit_http_config: { http_protocol_options: {} },
      },
    },
  };
}

/** A service shows a certificate for its address, or for another one of the same pool. */
function tlsTo(addresses: readonly string[], authority: string): Fields {
  const types = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3";
  return {
    name: "envoy.transport_sockets.tls",
    typed_config: {
      "@type": `${types}.UpstreamTlsContext`,
      common_tls_context: {
        tls_params: { tls_minimum_protocol_version: "TLSv1_2" },
        validation_context: {
          trusted_ca: { filename: authority },
          match_typed_subject_alt_names: [...new Set(addresses)].map((exact) => ({
            san_type: isIP(exact) === 0 ? "DNS" : "IP_ADDRESS",
            matcher: { exact },
          })),
        },
      },
    },
  };
}

/** Names are looked up again when they expire. */
function discovery(addresses: readonly string[]): Fields {
  if (addresses.every((address) => isIP(address) !== 0)) return { type: "STATIC" };
  return { type: "STRICT_DNS", respect_dns_ttl: true, dns_lookup_family: "V4_PREFERRED" };
}

function at({ address, port }: { readonly address: string; readonly port: number }): Fields {
  return { address: { socket_address: { address, port_value: port } } };
}

function admin(socket: string): Fields {
  return {
    name: ADMIN,
    type: "STATIC",
    connect_timeout: CONNECT_TIMEOUT,
    load_assignment: {
      cluster_name: ADMIN,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: socket } } } }] }],
    },
  };
}

function traces(collector: { readonly address: string; readonly port: number }): Fields {
  return {
    name: TRACES,
    ...discovery([collector.address]),
    connect_timeout: CONNECT_TIMEOUT,
    load_assignment: {
      cluster_name: TRACES,
      endpoints: [{ lb_endpoints: [{ endpoint: at(collector) }] }],
    },
  };
}
