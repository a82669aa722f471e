// Chooses ports that a server keeps for life.

import { readFile } from "node:fs/promises";
import net from "node:net";
import { DevClusterError } from "./errors.ts";

const attemptsMax = 200;
/**
 * Above 10080: the Fetch standard's list of bad ports contains that port, so clients cannot fetch
 * from it.
 */
const lowestPort = 10_100;

/** True if nothing listens there now. */
export function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** Claims, which end with this process. */
const claims = new Map<number, net.Server>();

/**
 * Claims the port against every other process that chooses here, even while nothing listens on it.
 * A claim is a name in Linux's abstract namespace. Like a port it belongs to the network namespace,
 * and it ends with the process. Other systems have no claims.
 */
async function claim(port: number): Promise<boolean> {
  if (process.platform !== "linux") return true;
  const server = net.createServer();
  const isClaimed = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(`\0highwater-port-${port}`, () => resolve(true));
  });
  if (isClaimed) claims.set(port, server.unref());
  return isClaimed;
}

/**
 * A free port below the kernel's range for outgoing connections, for as long as this process lives.
 * A stopped server keeps its port. A port from that range could meanwhile become the local end of a
 * connection, and one that was free only when it was chosen could become the port of another
 * cluster's server.
 */
export async function chooseFreePort(taken: ReadonlySet<number>): Promise<number> {
  const range = await readFile("/proc/sys/net/ipv4/ip_local_port_range", "utf8").catch(() => "32768 60999");
  const ephemeralFrom = Number(range.trim().split(/\s+/)[0]);
  const highest = ephemeralFrom > lowestPort + 2_000 ? ephemeralFrom : 65_536;
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const port = lowestPort + Math.floor(Math.random() * (highest - lowestPort));
    if (taken.has(port) || !(await claim(port))) continue;
    if (await isPortFree(port)) return port;
    claims.get(port)?.close();
    claims.delete(port);
  }
  throw new DevClusterError("PORT_IN_USE", `found no free port in ${attemptsMax} attempts`);
}
