// The edge of a region of the dev system: a real Envoy with the product's configuration.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Envoy } from "@highwater/lab-tools/envoy";
import { BOOTSTRAP_FILE, edgeFiles, type EdgeNode, type EdgeSource, readSource } from "@highwater/edge";

/**
 * Address from which edges connect. It differs from that of clients on this machine, because
 * gateways expect a header from it.
 */
export const EDGE_ADDRESS = "127.0.0.2";

/** The options in which edges may differ. */
export type EdgeChanges = Partial<
  Pick<EdgeSource, "limits" | "operators" | "serviceAuthority" | "traces" | "trustedProxies">
> & {
  readonly tls?: EdgeSource["listen"]["tls"];
};

/** 0: any free port. */
export interface EdgePorts {
  readonly port: number;
  /** For PostgreSQL clients, and for those of them that only read. */
  readonly postgresPort: number;
  readonly postgresReadPort: number;
}

export interface EdgeOptions {
  /** For all files that the edge writes. */
  readonly folder: string;
  readonly adminSocket: string;
  readonly ports: EdgePorts;
  /** As this edge reaches them, nearest region first. */
  readonly regions: EdgeSource["regions"];
}

export class RegionEdge implements AsyncDisposable {
  readonly url: string;
  readonly ports: EdgePorts;
  readonly envoy: Envoy;
  readonly accessLog: string;

  private constructor(envoy: Envoy, url: string, accessLog: string) {
    this.envoy = envoy;
    this.url = url;
    this.ports = {
      port: envoy.port("public"),
      postgresPort: envoy.port("postgres"),
      postgresReadPort: envoy.port("postgres_read"),
    };
    this.accessLog = accessLog;
  }

  static async start(options: EdgeOptions, changes: EdgeChanges): Promise<RegionEdge> {
    const { folder, adminSocket, ports, regions } = options;
    const { tls, ...others } = changes;
    const accessLog = join(folder, "access.log");
    const read = readSource({
      region: regions[0]?.name,
      listen: { address: "127.0.0.1", ...ports, ...(tls && { tls }) },
      sourceAddress: EDGE_ADDRESS,
      directory: folder,
      adminSocket,
      accessLog,
      regions,
      ...others,
    });
    if ("faults" in read) throw new Error(read.faults.join("; "));
    await mkdir(folder, { recursive: true });
    for (const [name, text] of edgeFiles(read.edge)) await writeFile(join(folder, name), text);
    const envoy = await Envoy.start({
      bootstrap: join(folder, BOOTSTRAP_FILE),
      adminSocket,
      logFile: join(folder, "envoy.log"),
    });
    const scheme = tls === undefined ? "http" : "https";
    const url = `${scheme}://127.0.0.1:${String(envoy.port("public"))}`;
    return new RegionEdge(envoy, url, accessLog);
  }

  /** Ends it at once, with all its connections. */
  stop(): Promise<void> {
    return this.envoy.stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

export function edgeNode(name: string, url: string): EdgeNode {
  const { hostname, port } = new URL(url);
  return { name, address: hostname, port: Number(port) };
}
