// The small source of a region's edge, from which its whole configuration is made: the schema, the
// defaults, and the faults that a schema cannot see.
import { isIP } from "node:net";
import Type, { type Static } from "typebox";
import { NAME_PATTERN, validate } from "@highwater/protocol";

const regionName = Type.String({ pattern: NAME_PATTERN });
/** As GATEWAY_NAME and TRACKER_NAME. */
const serviceName = Type.String({ pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$" });
const host = Type.String({ pattern: "^[A-Za-z0-9:][A-Za-z0-9.:-]{0,252}$" });
const port = Type.Integer({ minimum: 1, maximum: 65_535 });
/** As Envoy opens it, so the place where it runs does not matter. */
const file = Type.String({ pattern: "^/[ -~]{1,1023}$" });
const count = Type.Integer({ minimum: 1, maximum: 10_000_000 });

const closed = { additionalProperties: false };

/** One gateway or tracker, as this edge reaches it. Its address is a name or a number. */
const EdgeNode = Type.Object({ name: serviceName, address: host, port }, closed);
export type EdgeNode = Static<typeof EdgeNode>;
/** Ports of a gateway for PostgreSQL clients, if clients reach them through this edge. */
const EdgeGateway = Type.Object(
  { ...EdgeNode.properties, postgresPort: Type.Optional(port), postgresReadPort: Type.Optional(port) },
  closed,
);
export type EdgeGateway = Static<typeof EdgeGateway>;

/** By the port's field, the variable that has it at the gateway. */
const POSTGRES_VARIABLES = {
  postgresPort: "GATEWAY_PG_PORT",
  postgresReadPort: "GATEWAY_PG_READ_PORT",
} as const;
export type PostgresPort = keyof typeof POSTGRES_VARIABLES;
const POSTGRES_PORTS = Object.keys(POSTGRES_VARIABLES) as readonly PostgresPort[];

const EdgeRegion = Type.Object(
  {
    name: regionName,
    gateways: Type.Array(EdgeGateway, { maxItems: 100 }),
    trackers: Type.Array(EdgeNode, { maxItems: 100 }),
  },
  closed,
);
export type EdgeRegion = Static<typeof EdgeRegion>;

const EdgeLimits = Type.Object(
  {
    /** GATEWAY_BODY_LIMIT_BYTES and TRACKER_BODY_LIMIT_BYTES. */
    gatewayBodyBytes: Type.Optional(Type.Integer({ minimum: 1_024, maximum: 1_073_741_824 })),
    trackerBodyBytes: Type.Optional(Type.Integer({ minimum: 1_024, maximum: 1_073_741_824 })),
    /**
     * What an answer may take; longer than any transaction may take and then wait. Streams have no
     * such limit.
     */
    answerMs: Type.Optional(Type.Integer({ minimum: 100, maximum: 86_400_000 })),
    /** Of all callers together. Default: none. */
    requestsPerSecond: Type.Optional(count),
    /** Of one address (IPv6: one /64). Default: none. */
    requestsPerSecondOfAddress: Type.Optional(count),
    /** Connections of clients. */
    connections: Type.Optional(count),
    /** Of Envoy's heap: near it new requests are refused. */
    memoryBytes: Type.Optional(Type.Integer({ minimum: 1_048_576, maximum: 1_099_511_627_776 })),
  },
  closed,
);

export const EdgeSource = Type.Object(
  {
    /** The region in which this edge runs; the first of `regions`. */
    region: regionName,
    /**
     * For clients. Without `tls` it speaks plain HTTP: on loopback, or behind something that ends
     * TLS. Port 0: any.
     */
    listen: Type.Object(
      {
        address: host,
        port: Type.Integer({ minimum: 0, maximum: 65_535 }),
        tls: Type.Optional(Type.Object({ certificate: file, key: file }, closed)),
        /**
         * For PostgreSQL clients. The edge passes their bytes through; the gateway terminates TLS.
         */
        postgresPort: Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535 })),
        /** The same, for those of them that only read. */
        postgresReadPort: Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535 })),
        /**
         * A proxy in front of these two ports begins each connection with the header of the PROXY
         * protocol. Only it may reach them: the edge believes any address.
         */
        postgresProxyProtocol: Type.Optional(Type.Boolean()),
      },
      closed,
    ),
    /**
     * For operators: `/healthz`, `/readyz` and `/metrics` of the edge itself. Not for the public.
     */
    operators: Type.Optional(Type.Object({ address: host, port }, closed)),
    /** The folder in which Envoy finds what this makes. */
    directory: file,
    /** Envoy's own interface, as a socket in the file system, which only its user may open. */
    adminSocket: Type.String({ pattern: "^/[ -~]{1,106}$" }),
    /** Nearest first. A further region serves when nothing of the nearer ones is ready. */
    regions: Type.Array(EdgeRegion, { minItems: 1, maxItems: 32 }),
    limits: Type.Optional(EdgeLimits),
    /**
     * PEM file of the authorities that sign the services' certificates; with it the edge speaks TLS
     * to all of them.
     */
    serviceAuthority: Type.Optional(file),
    /** Address from which the edge connects to services. Default: the system chooses one. */
    sourceAddress: Type.Optional(host),
    /**
     * How many proxies in front of the edge are trusted to say whom they speak for
     * (X-Forwarded-For).
     */
    trustedProxies: Type.Optional(Type.Integer({ minimum: 0, maximum: 8 })),
    accessLog: Type.Optional(file),
    /** An OpenTelemetry collector that takes traces by HTTP. */
    traces: Type.Optional(Type.Object({ address: host, port }, closed)),
  },
  closed,
);
export type EdgeSource = Static<typeof EdgeSource>;

export interface Edge extends Required<
  Omit<EdgeSource, "limits" | "operators" | "traces" | "serviceAuthority" | "sourceAddress">
> {
  readonly operators: EdgeSource["operators"];
  readonly traces: EdgeSource["traces"];
  readonly serviceAuthority: EdgeSource["serviceAuthority"];
  readonly sourceAddress: EdgeSource["sourceAddress"];
  readonly limits: typeof DEFAULT_LIMITS & Static<typeof EdgeLimits>;
  readonly gateways: readonly EdgeGateway[];
  readonly trackers: readonly EdgeNode[];
}

/**
 * Bodies as the services' own defaults. An answer: 60 s for the transaction, 60 s for its wait, and
 * what settling takes.
 */
export const DEFAULT_LIMITS = {
  gatewayBodyBytes: 4_194_304,
  trackerBodyBytes: 16_777_216,
  answerMs: 180_000,
  connections: 50_000,
  memoryBytes: 1_073_741_824,
};

/** The source with its defaults, or every fault of it at once. */
export function readSource(value: unknown): { readonly edge: Edge } | { readonly faults: readonly string[] } {
  const checked = validate(EdgeSource, value);
  if (!checked.ok) return { faults: checked.faults };
  const source = checked.value;
  const faults = faultsOf(source);
  if (faults.length > 0) return { faults };
  const { limits, operators, traces, serviceAuthority, sourceAddress } = source;
  const { trustedProxies = 0, accessLog = "/dev/stdout" } = source;
  return {
    edge: {
      ...source,
      operators,
      traces,
      serviceAuthority,
      sourceAddress,
      trustedProxies,
      accessLog,
      limits: { ...DEFAULT_LIMITS, ...limits },
      gateways: source.regions.flatMap(({ gateways }) => gateways),
      trackers: source.regions.flatMap(({ trackers }) => trackers),
    },
  };
}

/** Those on which the edge listens. */
export function postgresPorts({ listen }: Pick<Edge, "listen">): PostgresPort[] {
  return POSTGRES_PORTS.filter((field) => listen[field] !== undefined);
}

function faultsOf({ region, regions, listen, sourceAddress }: EdgeSource): string[] {
  const faults: string[] = [];
  if (sourceAddress !== undefined && isIP(sourceAddress) === 0)
    faults.push(`/sourceAddress: must be a number, not a name: ${sourceAddress}`);
  for (const field of POSTGRES_PORTS) {
    const isServed = regions.some(({ gateways }) => gateways.some((each) => each[field] !== undefined));
    if (listen[field] !== undefined && !isServed)
      faults.push(`/listen/${field}: needs a gateway with ${field}, its ${POSTGRES_VARIABLES[field]}`);
  }
  if (regions[0]?.name !== region) faults.push(`/regions/0/name: must be ${region}, where this edge runs`);
  for (const [what, names] of [
    ["regions", regions.map(({ name }) => name)],
    ["gateways", regions.flatMap(({ gateways }) => gateways.map(({ name }) => name))],
    ["trackers", regions.flatMap(({ trackers }) => trackers.map(({ name }) => name))],
  ] as const) {
    if (names.length === 0) faults.push(`/regions: there must be ${what}`);
    for (const name of new Set(names.filter((one, at) => names.indexOf(one) !== at)))
      faults.push(`/regions: ${what} are told apart by their names, and ${name} is there twice`);
  }
  return faults;
}
