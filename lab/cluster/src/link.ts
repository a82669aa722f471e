// The network between locations: delay, cuts and heals of each pair. Owns no sockets; relays ask
// it.

/** Round trips of the default regions, in milliseconds. Other pairs have 0 until they are set. */
export const defaultRoundTripMs: Readonly<Record<string, number>> = {
  "us-east/us-west": 62,
  "us-east/eu-west": 76,
  "us-west/eu-west": 138,
};

export type CutDirection = "both" | "forward" | "backward";
export type CutMode = "blackhole" | "reset";

/** One direction of a link, as a packet experiences it. */
export class Path {
  delayMs = 0;
  blocked = false;
  /** After a heal, stalled bytes are sent again, so they need another trip from this time on. */
  notBeforeMs = 0;
  /** Called when a blocked path opens. */
  readonly onOpen = new Set<() => void>();

  block(): void {
    this.blocked = true;
  }

  open(): void {
    if (!this.blocked) return;
    this.blocked = false;
    this.notBeforeMs = performance.now() + this.delayMs;
    for (const listener of [...this.onOpen]) listener();
  }
}

export class Link {
  readonly a: string;
  readonly b: string;
  readonly #aToB = new Path();
  readonly #bToA = new Path();
  /** During a reset cut, connections die and new ones are refused. */
  refusing = false;
  readonly onReset = new Set<() => void>();

  constructor(a: string, b: string) {
    this.a = a;
    this.b = b;
  }

  /** The direction that leaves `from`. */
  path(from: string): Path {
    return from === this.a ? this.#aToB : this.#bToA;
  }

  get isCut(): boolean {
    return this.refusing || this.#aToB.blocked || this.#bToA.blocked;
  }

  setRoundTripMs(ms: number): void {
    this.#aToB.delayMs = ms / 2;
    this.#bToA.delayMs = ms / 2;
  }

  /** `direction` is seen from `from`. A reset has no direction. */
  cut(from: string, direction: CutDirection, mode: CutMode): void {
    if (mode === "reset") {
      this.refusing = true;
      for (const listener of [...this.onReset]) listener();
      return;
    }
    const other = from === this.a ? this.b : this.a;
    if (direction !== "backward") this.path(from).block();
    if (direction !== "forward") this.path(other).block();
  }

  heal(): void {
    this.refusing = false;
    this.#aToB.open();
    this.#bToA.open();
  }
}

interface Isolation {
  location: string;
  except: ReadonlySet<string>;
}

/** Every link of the cluster, made when first asked for. */
export class LinkTable {
  readonly #links = new Map<string, Link>();
  readonly #roundTripMs = new Map<string, number>();
  #isolations: Isolation[] = [];

  constructor(overrides: Readonly<Record<string, number>> = {}) {
    for (const table of [defaultRoundTripMs, overrides]) {
      for (const [pair, ms] of Object.entries(table)) {
        const [a, b] = pair.split("/");
        this.#roundTripMs.set(pairKey(a ?? "", b ?? ""), ms);
      }
    }
  }

  get(a: string, b: string): Link {
    const key = pairKey(a, b);
    let link = this.#links.get(key);
    if (link === undefined) {
      link = new Link(a, b);
      link.setRoundTripMs(this.#roundTripMs.get(key) ?? 0);
      for (const isolation of this.#isolations) applyIsolation(link, isolation);
      this.#links.set(key, link);
    }
    return link;
  }

  /** Cuts the location from every other one, including links that are made later. */
  isolate(location: string, except: readonly string[]): void {
    const isolation = { location, except: new Set(except) };
    this.#isolations.push(isolation);
    for (const link of this.#links.values()) applyIsolation(link, isolation);
  }

  healAll(): void {
    this.#isolations = [];
    for (const link of this.#links.values()) link.heal();
  }
}

function applyIsolation(link: Link, isolation: Isolation): void {
  if (link.a === link.b || (link.a !== isolation.location && link.b !== isolation.location)) return;
  const other = link.a === isolation.location ? link.b : link.a;
  if (!isolation.except.has(other)) link.cut(isolation.location, "both", "blackhole");
}

function pairKey(a: string, b: string): string {
  return a < b ? `${a}/${b}` : `${b}/${a}`;
}
