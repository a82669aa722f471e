// Watches the file in HIGHWATER_TOPOLOGY while the service runs. Changed levels take effect without
// a restart; changed nodes do not, because the service was built from them. Invalid content changes
// nothing.
import { readFile } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import { type NodeSpec, type Topology, topologyWarnings } from "@highwater/protocol";
import { type Clock, sleep } from "@highwater/runtime";
import { type Log } from "./log.ts";
import { type Counter, type MetricSet, PROCESS } from "./metrics/index.ts";
import { parseTopology } from "./settings/readers.ts";
import { type Env, Faults } from "./settings/setting.ts";

export interface TopologyFileOptions {
  readonly path: string;
  /** What the service has started with. */
  readonly current: Topology;
  readonly clock: Clock;
  readonly log: Log;
}

export interface TopologyWatcher {
  /** What the service itself has against the levels; nothing by default. */
  readonly faultsOf?: (topology: Topology) => readonly string[];
  readonly onLevels: (levels: Topology["levels"]) => void;
  readonly metrics: MetricSet;
}

/**
 * Looking at the content, and not at the file's times: a file that is replaced by another, or a
 * link to it, is no less new.
 */
const POLL_MS = 2_000;

/** The path in `@path`; null where the variable holds the topology itself. */
export function topologyPath(env: Env): string | null {
  const value = env["HIGHWATER_TOPOLOGY"] ?? "";
  return value.startsWith("@") ? value.slice(1) : null;
}

export class TopologyFile {
  readonly #options: TopologyFileOptions;
  readonly #stop = new AbortController();
  #watcher: TopologyWatcher | null = null;
  #reloads: Counter | null = null;
  #current: Topology;
  /**
   * The last content that was read, or why it could not be; it is judged when it is there a second
   * time.
   */
  #seen: string | null = null;
  /** What was taken or refused last. */
  #judged: string | null = null;
  #isRefused = false;
  #reading: Promise<void> = Promise.resolve();

  constructor(options: TopologyFileOptions) {
    this.#options = options;
    this.#current = options.current;
  }

  /** The nodes of the start, and the levels of now. */
  get current(): Topology {
    return this.#current;
  }

  /** Begins to look at the file. */
  start(watcher: TopologyWatcher): void {
    this.#watcher = watcher;
    this.#reloads = watcher.metrics.counter(PROCESS.topologyReloads);
    watcher.metrics.read(PROCESS.topologyRefused, () => (this.#isRefused ? 1 : 0));
    void this.#run();
  }

  stop(): void {
    this.#stop.abort();
  }

  /**
   * Reads the file now, and says what is wrong with it however often that has been said. Never
   * rejects.
   */
  async reload(): Promise<void> {
    this.#judged = null;
    await this.#look(true);
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    while (!this.#stop.signal.aborted) {
      await this.#look(false);
      await sleep(clock, POLL_MS, this.#stop.signal);
    }
  }

  /** One after the other: an answer that is late must not undo a newer one. */
  #look(isAsked: boolean): Promise<void> {
    this.#reading = this.#reading.then(() => this.#lookOnce(isAsked));
    return this.#reading;
  }

  async #lookOnce(isAsked: boolean): Promise<void> {
    const { path } = this.#options;
    let text: string;
    let topology: Topology | null = null;
    let faults: readonly string[] = [];
    try {
      text = await readFile(path, "utf8");
      topology = parseTopology(text);
      faults = this.#faultsOf(topology);
    } catch (cause) {
      text = cause instanceof Faults ? "faulty" : `unreadable: ${String((cause as { code?: unknown }).code)}`;
      faults = cause instanceof Faults ? cause.faults : [`the file is ${text}`];
      text += faults.join();
    }
    if (this.#stop.signal.aborted) return;
    // What is wrong may only be half written; what is right cannot be.
    const isStable = text === this.#seen;
    this.#seen = text;
    if (text === this.#judged || (faults.length > 0 && !isStable && !isAsked)) return;
    this.#judged = text;
    if (topology === null || faults.length > 0) this.#refuse(faults);
    else this.#take(topology);
  }

  #faultsOf(topology: Topology): readonly string[] {
    const changed = changedNodes(this.#current.nodes, topology.nodes);
    if (changed.length > 0) return [`restart to change nodes: ${changed.join(", ")}`];
    return this.#watcher?.faultsOf?.(topology) ?? [];
  }

  #refuse(faults: readonly string[]): void {
    this.#isRefused = true;
    this.#reloads?.add("refused");
    this.#options.log.error("topology_refused", { faults, levels: Object.keys(this.#current.levels) });
  }

  #take(topology: Topology): void {
    this.#isRefused = false;
    // The order of the levels says which is stronger.
    if (JSON.stringify(topology.levels) === JSON.stringify(this.#current.levels)) return;
    const before = this.#current.levels;
    this.#current = topology;
    this.#reloads?.add("taken");
    this.#options.log.info("levels_changed", { before, levels: topology.levels });
    for (const warning of topologyWarnings(topology))
      this.#options.log.warn("topology_doubtful", { warning });
    this.#watcher?.onLevels(topology.levels);
  }
}

/** Names of the nodes that are not the same in both, whatever their order. */
function changedNodes(before: readonly NodeSpec[], after: readonly NodeSpec[]): readonly string[] {
  const [old, now] = [before, after].map((nodes) => new Map(nodes.map((node) => [node.id, node])));
  const ids = new Set([...(old?.keys() ?? []), ...(now?.keys() ?? [])]);
  return [...ids].filter((id) => !isDeepStrictEqual(old?.get(id), now?.get(id)));
}
