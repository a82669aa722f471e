// The relays of a cluster: made on demand, reused, and bound to the links that delay and cut them.

import { DevClusterError } from "./errors.ts";
import { checkRoundTrip } from "./layout.ts";
import { LinkTable } from "./link.ts";
import { Relay } from "./relay.ts";
import type { CutOptions, RelayTarget } from "./types.ts";

export interface Endpoint {
  id: string;
  region: string;
  port: number;
}

export class Network {
  readonly #links: LinkTable;
  /** By location and node: the port on which the location reaches the node. */
  readonly #toNodes = new Map<string, Promise<number>>();
  readonly #relays = new Map<number, Relay>();
  #nextRelayId = 1;

  constructor(roundTripMs: Readonly<Record<string, number>> | undefined) {
    this.#links = new LinkTable(roundTripMs);
  }

  /** The port on which `from` reaches the node: the node's own, or a relay's from elsewhere. */
  async portFor(node: Endpoint, from: string | undefined): Promise<number> {
    if (from === undefined || from === node.region) return node.port;
    const key = `${from}/${node.id}`;
    let port = this.#toNodes.get(key);
    if (port === undefined) {
      port = this.#open({
        from,
        to: node.region,
        link: this.#links.get(from, node.region),
        host: "127.0.0.1",
        port: () => node.port,
      }).then((opened) => opened.port);
      this.#toNodes.set(key, port);
      port.catch(() => this.#toNodes.delete(key));
    }
    return port;
  }

  async openRelay(target: RelayTarget): Promise<{ relayId: number; port: number }> {
    return this.#open({
      from: target.from,
      to: target.to,
      link: this.#links.get(target.from, target.to),
      host: target.host ?? "127.0.0.1",
      port: () => target.port,
      listenPort: target.listenPort,
      localAddress: target.localAddress,
    });
  }

  async closeRelay(relayId: number): Promise<void> {
    const relay = this.#relays.get(relayId);
    this.#relays.delete(relayId);
    await relay?.close();
  }

  async setRoundTripMs(a: string, b: string, ms: number): Promise<void> {
    checkRoundTrip(ms);
    this.#links.get(a, b).setRoundTripMs(ms);
  }

  async cut(from: string, to: string, options: CutOptions): Promise<void> {
    this.#links.get(from, to).cut(from, options.direction ?? "both", options.mode ?? "blackhole");
  }

  async heal(a: string, b: string): Promise<void> {
    this.#links.get(a, b).heal();
  }

  isCut(a: string, b: string): boolean {
    return this.#links.get(a, b).isCut;
  }

  async isolate(location: string, except: readonly string[]): Promise<void> {
    this.#links.isolate(location, except);
  }

  async healAll(): Promise<void> {
    this.#links.healAll();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#relays.keys()].map((relayId) => this.closeRelay(relayId)));
  }

  async #open(options: ConstructorParameters<typeof Relay>[0]): Promise<{ relayId: number; port: number }> {
    const relay = new Relay(options);
    let port: number;
    try {
      port = await relay.listen();
    } catch (cause) {
      const where = `the relay from ${options.from} to ${options.to}`;
      if ((cause as NodeJS.ErrnoException).code === "EADDRINUSE") {
        throw new DevClusterError("PORT_IN_USE", `port ${options.listenPort} of ${where} is in use`, {
          cause,
        });
      }
      throw new DevClusterError("START_FAILED", `${where} cannot listen`, { cause });
    }
    const relayId = this.#nextRelayId++;
    this.#relays.set(relayId, relay);
    return { relayId, port };
  }
}
