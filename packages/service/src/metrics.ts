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

export class MetricSet {
  readonly #counters: Counter[] = [];
  readonly #gauges: Gauge[] = [];

  counter(name: string, help: string): Counter {
    const counter = new Counter(name, help);
    this.#counters.push(counter);
    return counter;
  }

  gauge(name: string, help: string, read: Gauge["read"]): void {
    this.#gauges.push({ name, help, read });
  }

  render(): string {
    const lines: string[] = [];
    for (const counter of this.#counters)
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
