// The files that an Envoy of a region's edge runs by, made from the region's source.
import { clusters } from "./clusters.ts";
import { CERTIFICATE_FILE, CERTIFICATE_NAME, listeners } from "./listeners.ts";
import { type Edge } from "./source.ts";

export const BOOTSTRAP_FILE = "envoy.json";
const HEAP_MONITOR = "envoy.resource_monitors.fixed_heap";
/** So that only its user can ask and command it. */
const ADMIN_SOCKET_MODE = 0o600;

/** By their names, as text. They belong into the source's `directory`. */
export function edgeFiles(edge: Edge): ReadonlyMap<string, string> {
  const { tls } = edge.listen;
  const files = new Map([[BOOTSTRAP_FILE, toText(bootstrap(edge))]]);
  if (tls !== undefined) files.set(CERTIFICATE_FILE, toText(certificate(tls)));
  return files;
}

function bootstrap(edge: Edge): object {
  return {
    node: { id: `edge-${edge.region}`, cluster: "highwater-edge", locality: { region: edge.region } },
    admin: { address: { pipe: { path: edge.adminSocket, mode: ADMIN_SOCKET_MODE } } },
    overload_manager: overload(edge),
    static_resources: { listeners: listeners(edge), clusters: clusters(edge) },
  };
}

/**
 * What arrives is held until it is whole, so a crowd could fill the memory: near the limit new
 * requests are refused instead.
 */
function overload({ limits }: Edge): object {
  const monitors = "type.googleapis.com/envoy.extensions.resource_monitors";
  const above = (value: number): object[] => [{ name: HEAP_MONITOR, threshold: { value } }];
  return {
    refresh_interval: "0.250s",
    resource_monitors: [
      {
        name: "envoy.resource_monitors.global_downstream_max_connections",
        typed_config: {
          "@type": `${monitors}.downstream_connections.v3.DownstreamConnectionsConfig`,
          max_active_downstream_connections: limits.connections,
        },
      },
      {
        name: HEAP_MONITOR,
        typed_config: {
          "@type": `${monitors}.fixed_heap.v3.FixedHeapConfig`,
          max_heap_size_bytes: limits.memoryBytes,
        },
      },
    ],
    actions: [
      { name: "envoy.overload_actions.shrink_heap", triggers: above(0.85) },
      { name: "envoy.overload_actions.stop_accepting_requests", triggers: above(0.95) },
    ],
  };
}

/**
 * Envoy takes it up when one of the two files is replaced by a rename, as certificate managers do.
 */
function certificate({ certificate, key }: { readonly certificate: string; readonly key: string }): object {
  return {
    resources: [
      {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        name: CERTIFICATE_NAME,
        tls_certificate: { certificate_chain: { filename: certificate }, private_key: { filename: key } },
      },
    ],
  };
}

function toText(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
