// One connection to each node for one purpose, opened when it is needed.
import { type NodeSpec } from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { applicationName, Channel, sessionSettings } from "./channel.ts";

export interface NodeChannelsOptions {
  readonly nodes: readonly NodeSpec[];
  readonly clock: Clock;
  /** Names this process to the server. */
  readonly helper: string;
  readonly connectTimeoutMs: number;
  readonly callTimeoutMs: number;
}

export class NodeChannels {
  readonly #channels: ReadonlyMap<string, Channel>;

  /** `settings`: of the sessions, beside those that every session of ours has. */
  constructor(
    { nodes, clock, helper, connectTimeoutMs, callTimeoutMs }: NodeChannelsOptions,
    purpose: string,
    settings: Readonly<Record<string, string>> = {},
  ) {
    const options = {
      name: applicationName(helper, purpose),
      settings: { ...sessionSettings(callTimeoutMs), ...settings },
      connectTimeoutMs,
      callTimeoutMs,
      clock,
    };
    this.#channels = new Map(nodes.map(({ id, url }) => [id, new Channel({ url, ...options })]));
  }

  /** Throws if the node is not configured. */
  of(node: string): Channel {
    const channel = this.#channels.get(node);
    if (channel === undefined) throw new Error(`node ${node} is not configured`);
    return channel;
  }

  close(): void {
    for (const channel of this.#channels.values()) channel.close();
  }
}
