// Ports that a server keeps for life.

import { readFile } from "node:fs/promises";
import net from "node:net";
import { DevClusterError } from "./errors.ts";

const attemptsMax = 200;
const lowestPort = 10_000;

/** True if nobody listens there now. */
export function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/**
 * A free port below the range from which the kernel serves outgoing connections. A node keeps its port while it
 * is stopped, and a port from that range could meanwhile become somebody's local end.
 */
export async function chooseFreePort(taken: ReadonlySet<number>): Promise<number> {
  const range = await readFile("/proc/sys/net/ipv4/ip_local_port_range", "utf8").catch(() => "32768 60999");
  const ephemeralFrom = Number(range.trim().split(/\s+/)[0]);
  const highest = ephemeralFrom > lowestPort + 2_000 ? ephemeralFrom : 65_536;
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const port = lowestPort + Math.floor(Math.random() * (highest - lowestPort));
    if (!taken.has(port) && (await isPortFree(port))) return port;
  }
  throw new DevClusterError("PORT_IN_USE", `found no free port in ${attemptsMax} attempts`);
}
