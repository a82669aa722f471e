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
  /** The topology with which the service started. */
  readonly current: Topology;
  readonly clock: Clock;
  readonly log: Log;
}

export interface TopologyWatcher {
  /** The service's own objections to the levels. Default: none. */
  readonly faultsOf?: (topology: Topology) => readonly string[];
  readonly onLevels: (levels: Topology["levels"]) => void;
  readonly metrics: MetricSet;
}

/**
 * Compares the content and not the file's times, because the file, or a link to it, may be replaced
 * by another.
 */
const POLL_MS = 2_000;

/** The path in `@path`; null where the variable contains the topology itself. */
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
   * The last content, or why it could not be read. A faulty one is judged when it is read a second
   * time.
   */
  #seen: string | null = null;
  /** The content that was accepted or refused last. */
  #judged: string | null = null;
  #isRefused = false;
  #reading: Promise<void> = Promise.resolve();

  constructor(options: TopologyFileOptions) {
    this.#options = options;
    this.#current = options.current;
  }

  /** The nodes of the start and the current levels. */
  get current(): Topology {
    return this.#current;
  }

  /** Starts to watch the file. */
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
   * Reads the file now, and reports its faults even if they were reported before. Never rejects.
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

  /** One look after another, so that a late one cannot undo a newer one. */
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
    // A faulty file may be half written; a correct one cannot be.
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
    // The order of the levels matters: it says which is stronger.
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

/** Names of nodes that differ between the two, in any order. */
function changedNodes(before: readonly NodeSpec[], after: readonly NodeSpec[]): readonly string[] {
  const [old, now] = [before, after].map((nodes) => new Map(nodes.map((node) => [node.id, node])));
  const ids = new Set([...(old?.keys() ?? []), ...(now?.keys() ?? [])]);
  return [...ids].filter((id) => !isDeepStrictEqual(old?.get(id), now?.get(id)));
}
