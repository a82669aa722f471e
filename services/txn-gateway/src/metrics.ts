// Counters and gauges in the Prometheus text format.

type Labels = Readonly<Record<string, string>>;

interface Gauge {
  readonly name: string;
  readonly help: string;
  readonly read: () => readonly { readonly labels: Labels; readonly value: number }[];
}

export class Counter {
  readonly #values = new Map<string, { readonly labels: Labels; count: number }>();
  readonly name: string;
  readonly help: string;

  constructor(name: string, help: string) {
    this.name = name;
    this.help = help;
  }

  /** Label values must come from a small fixed set, and the labels be given in one order. */
  add(labels: Labels): void {
    const key = Object.values(labels).join(" ");
    const value = this.#values.get(key);
    if (value === undefined) this.#values.set(key, { labels, count: 1 });
    else value.count++;
  }

  lines(): string[] {
    return [...this.#values.values()].map(
      ({ labels, count }) => `${this.name}${labelText(labels)} ${String(count)}`,
    );
  }
}

export class Metrics {
  readonly transactions = new Counter(
    "highwater_gateway_transactions_total",
    "Transactions by acknowledgement and outcome; the outcome of a failed one is its error code.",
  );
  readonly unknownOutcomes = new Counter(
    "highwater_gateway_unknown_outcomes_total",
    "Connections that died during COMMIT, by what the id was settled as.",
  );
  readonly reads = new Counter(
    "highwater_gateway_nearby_reads_total",
    "Reads that a replica of this region was asked for, by the role of the node that served them.",
  );
  readonly openEnds = new Counter(
    "highwater_gateway_open_transactions_ended_total",
    "Interactive transactions by how they ended.",
  );
  readonly refusals = new Counter(
    "highwater_gateway_refusals_total",
    "Requests that were refused before they reached a transaction, by error code.",
  );
  readonly #gauges: Gauge[] = [];

  gauge(name: string, help: string, read: Gauge["read"]): void {
    this.#gauges.push({ name, help, read });
  }

  render(): string {
    const lines: string[] = [];
    for (const counter of [this.transactions, this.unknownOutcomes, this.reads, this.openEnds, this.refusals])
      lines.push(...head(counter.name, counter.help, "counter"), ...counter.lines());
    for (const { name, help, read } of this.#gauges)
      lines.push(
        ...head(name, help, "gauge"),
        ...read().map(({ labels, value }) => `${name}${labelText(labels)} ${String(value)}`),
      );
    return `${lines.join("\n")}\n`;
  }
}

function head(name: string, help: string, type: string): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(
    ([key, value]) =>
      `${key}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`,
  );
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}
