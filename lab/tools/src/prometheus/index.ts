// A real Prometheus on loopback for tests, dashboards and experiments: it scrapes the given
// targets, stores the values in its own folder, which is removed with it, and ends with the process
// that started it. Never for production.
import { type ChildProcess, execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import {
  endGuarded,
  isRunning,
  spawnGuarded,
  TemporaryFolder,
  untilTrue,
} from "@highwater/lab-tools/process";
import {
  query,
  queryRange,
  type Range,
  rules,
  type RuleState,
  type Series,
  type Target,
  targets,
} from "./api.ts";
import { requirePrograms } from "./find.ts";

export { type Range, type RuleState, type Series, type Target } from "./api.ts";
export { findPrograms, FOLDER_VARIABLE, whyNoPrometheus } from "./find.ts";

const START_LIMIT_MS = 60_000;
const WAIT_LIMIT_MS = 60_000;
const POLL_MS = 100;
const COMPLAINTS_MAX = 10;
const PROMTOOL_LIMIT_MS = 120_000;

export interface ScrapeTarget {
  readonly job: string;
  /** The service's URL; `/metrics` is below it. */
  readonly url: string;
  readonly labels?: Readonly<Record<string, string>>;
}

export interface PrometheusOptions {
  readonly targets: readonly ScrapeTarget[];
  /** Default: 1 s. */
  readonly scrapeMs?: number;
  /** How often rules are evaluated. Default: 1 s. */
  readonly evaluateMs?: number;
  /** Paths of rule files. */
  readonly rules?: readonly string[];
  /** Additional flags, such as `--web.enable-remote-write-receiver`. */
  readonly flags?: readonly string[];
}

export class DevPrometheus implements AsyncDisposable {
  readonly url: string;
  readonly #folder: TemporaryFolder;
  readonly #child: ChildProcess;
  readonly #log: Log;

  private constructor(url: string, folder: TemporaryFolder, child: ChildProcess, log: Log) {
    this.url = url;
    this.#folder = folder;
    this.#child = child;
    this.#log = log;
  }

  /**
   * Resolves when it answers queries. Errors: `whyNoPrometheus`, or its last output when it does
   * not start.
   */
  static async start(options: PrometheusOptions): Promise<DevPrometheus> {
    const { prometheus } = requirePrograms();
    const folder = await TemporaryFolder.make("highwater-prometheus-");
    const config = join(folder.path, "prometheus.yml");
    // Every JSON text is also YAML.
    await writeFile(config, JSON.stringify(configOf(options), null, 2));
    const flags = [
      ...[`--config.file=${config}`, `--storage.tsdb.path=${join(folder.path, "data")}`],
      ...["--web.listen-address=127.0.0.1:0", "--log.level=info"],
      ...(options.flags ?? []),
    ];
    const child = spawnGuarded([prometheus, ...flags], { stderr: "pipe" });
    const log = new Log(child);
    try {
      const started = new DevPrometheus(await log.address, folder, child, log);
      // It listens before it reads its configuration, and ends if that is wrong.
      const isReady = (): Promise<boolean> =>
        fetch(`${started.url}/-/ready`).then(
          ({ ok }) => ok,
          () => false,
        );
      await started.#until("it is ready", isReady);
      return started;
    } catch (cause) {
      await endGuarded(child);
      await folder.remove();
      throw cause;
    }
  }

  query(expression: string, atSeconds?: number): Promise<Series[]> {
    return query(this.url, expression, atSeconds);
  }

  queryRange(expression: string, range: Range): Promise<Series[]> {
    return queryRange(this.url, expression, range);
  }

  targets(): Promise<Target[]> {
    return targets(this.url);
  }

  rules(): Promise<RuleState[]> {
    return rules(this.url);
  }

  /** Waits until every target was scraped and up. Errors: the error of each other target. */
  async untilScraped(): Promise<void> {
    let down: readonly Target[] = [];
    const scraped = async (): Promise<boolean> => {
      const all = await this.targets();
      down = all.filter(({ health }) => health !== "up");
      return all.length > 0 && down.length === 0;
    };
    await this.#until("every target is up", scraped, () =>
      down.map(({ url, health, lastError }) => `${url} is ${health} ${lastError}`).join("; "),
    );
  }

  /** Waits until the expression's series satisfy the condition; returns them. */
  async eventually(
    expression: string,
    satisfies: (series: readonly Series[]) => boolean = (series) => series.length > 0,
  ): Promise<Series[]> {
    let last: Series[] = [];
    let down = "";
    const satisfied = async (): Promise<boolean> => {
      last = await this.query(expression);
      if (satisfies(last)) return true;
      const lost = (await this.targets()).filter(({ health }) => health !== "up");
      down = lost.map(({ url, health, lastError }) => `; ${url} is ${health} ${lastError}`).join("");
      return false;
    };
    await this.#until(expression, satisfied, () => JSON.stringify(last) + down);
    return last;
  }

  async #until(what: string, look: () => Promise<boolean>, last: () => string = () => ""): Promise<void> {
    try {
      await untilTrue(this.#child, look, { limitMs: WAIT_LIMIT_MS, pollMs: POLL_MS });
    } catch (cause) {
      if (isRunning(this.#child)) throw new Error(`Prometheus: ${what}. ${last()}`, { cause });
      await this.#log.closed;
      throw new Error(`Prometheus has ended: ${this.#log.text()}`, { cause });
    }
  }

  /** Also removes what it has stored. */
  async close(): Promise<void> {
    await endGuarded(this.#child);
    await this.#folder.remove();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

export interface Finished {
  readonly code: number;
  readonly output: string;
}

/**
 * Runs promtool to its end. Errors: `whyNoPrometheus`, or that it could not run; its verdict on the
 * input is no error.
 */
export function promtool(args: readonly string[], folder?: string): Promise<Finished> {
  const options = { timeout: PROMTOOL_LIMIT_MS, ...(folder !== undefined && { cwd: folder }) };
  return new Promise((resolve, reject) => {
    execFile(requirePrograms().promtool, args, options, (error, stdout, stderr) => {
      if (error !== null && typeof error.code !== "number")
        reject(new Error("promtool failed", { cause: error }));
      else resolve({ code: error === null ? 0 : Number(error.code), output: `${stdout}${stderr}` });
    });
  });
}

function configOf({
  targets: scraped,
  scrapeMs = 1_000,
  evaluateMs = 1_000,
  rules: files = [],
}: PrometheusOptions) {
  const jobs = [...new Set(scraped.map(({ job }) => job))];
  return {
    global: { scrape_interval: `${String(scrapeMs)}ms`, evaluation_interval: `${String(evaluateMs)}ms` },
    rule_files: files,
    scrape_configs: jobs.map((job) => ({
      job_name: job,
      scrape_timeout: `${String(scrapeMs)}ms`,
      static_configs: scraped
        .filter((target) => target.job === job)
        .map(({ url, labels = {} }) => ({ targets: [new URL(url).host], labels })),
    })),
  };
}

/**
 * Reads a process's output for as long as it runs, because a full pipe would stop it. Keeps the
 * last complaints, which explain its end.
 */
class Log {
  readonly #last: string[] = [];
  /** Resolves when the process has ended and all its output is read. */
  readonly closed: Promise<void>;
  /** The kernel chooses the port, and the log contains it. */
  readonly address: Promise<string>;

  constructor(child: ChildProcess) {
    this.closed = new Promise((resolve) => {
      child.once("close", () => {
        resolve();
      });
    });
    this.address = new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`Prometheus did not start in time: ${this.text()}`));
      }, START_LIMIT_MS);
      child.once("error", reject);
      child.once("close", () => {
        clearTimeout(timer);
        reject(new Error(`Prometheus ended while it started: ${this.text()}`));
      });
      if (child.stderr === null) return;
      createInterface(child.stderr).on("line", (line) => {
        if (!/level=info/i.test(line)) this.#last.push(line);
        if (this.#last.length > COMPLAINTS_MAX) this.#last.shift();
        const address = /"?Listening on"?.* address=(\S+)/.exec(line)?.[1];
        if (address === undefined) return;
        clearTimeout(timer);
        resolve(`http://${address}`);
      });
    });
  }

  text(): string {
    return this.#last.join("\n");
  }
}
