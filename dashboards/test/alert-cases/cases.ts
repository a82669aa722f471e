// For every alert: what makes it fire, with what it then says, and what must not. Values are in promtool's notation: `0x10` is ten more
// zeros, `0+1x10` grows by one; there is one every 30 s, or at each `step`.

export type Series = Readonly<Record<string, string>>;

interface Firing {
  readonly series: Series;
  readonly at: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly summary: string;
}

interface Silent {
  readonly why: string;
  readonly series: Series;
  /** Moments at which nothing may fire. */
  readonly at: readonly string[];
}

export interface Cases {
  /** Between two values and two evaluations. */
  readonly step?: string;
  readonly fires: readonly [Firing, ...Firing[]];
  readonly silent: readonly [Silent, ...Silent[]];
}

export const GATEWAY = 'job="highwater-gateway",instance="g1"';
export const GATEWAY_2 = 'job="highwater-gateway",instance="g2"';
export const TRACKER = 'job="highwater-tracker",instance="t1"';
export const TRACKER_2 = 'job="highwater-tracker",instance="t2"';

/** What it needs to be silent about a restart: a counter that begins again at what it was not. */
export const RESTARTED = "7x10 0x20";
