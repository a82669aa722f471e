// Resolves names to addresses: from the hosts file, otherwise from the name servers, over sockets
// of its own. It avoids getaddrinfo, which takes one of the process's four threads for each name:
// silent name servers would stop all other work there.
import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { type HostAddress, type Resolve } from "./address.ts";

export interface ResolveOptions {
  /** Default: those of the machine. */
  readonly servers?: readonly string[];
  readonly hostsFile?: string;
  /** For the first question to a server. Each repetition gets more time. */
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 2_000;
const TRIES = 2;
const HOSTS_FILE = "/etc/hosts";

export function makeResolve(options: ResolveOptions = {}): Resolve {
  const { servers, hostsFile = HOSTS_FILE, timeoutMs = TIMEOUT_MS } = options;
  return async (hostname, signal) => {
    signal.throwIfAborted();
    const known = await inHostsFile(hostname, hostsFile);
    if (known.length > 0) return known;
    // One for each name, because a cancel ends all questions of a resolver.
    const resolver = new Resolver({ timeout: timeoutMs, tries: TRIES });
    if (servers !== undefined) resolver.setServers(servers);
    const cancel = (): void => {
      resolver.cancel();
    };
    signal.addEventListener("abort", cancel, { once: true });
    try {
      const [v4, v6] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
      if (v4.status === "rejected" && v6.status === "rejected") throw v4.reason;
      return [...addresses(v4, 4), ...addresses(v6, 6)];
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  };
}

export const resolveName: Resolve = makeResolve();

function addresses(settled: PromiseSettledResult<string[]>, family: 4 | 6): HostAddress[] {
  return settled.status === "rejected" ? [] : settled.value.map((address) => ({ address, family }));
}

async function inHostsFile(hostname: string, file: string): Promise<HostAddress[]> {
  const wanted = hostname.toLowerCase().replace(/\.$/, "");
  const text = await readFile(file, "utf8").catch(() => "");
  return text.split("\n").flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().split(/\s+/);
    const family = isIP(address);
    const isMeant = names.some((name) => name.toLowerCase() === wanted);
    return isMeant && (family === 4 || family === 6) ? [{ address, family }] : [];
  });
}
