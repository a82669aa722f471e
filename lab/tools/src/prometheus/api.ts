// The part of Prometheus's HTTP API that tests and pictures use, as functions of its address.

export interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /**
   * One point for an instant query: seconds of Unix time, and the value as a number (NaN and
   * infinities included).
   */
  readonly points: readonly (readonly [seconds: number, value: number])[];
}

export interface Target {
  readonly job: string;
  readonly url: string;
  readonly health: "up" | "down" | "unknown";
  readonly lastError: string;
}

export interface RuleState {
  readonly name: string;
  readonly type: "alerting" | "recording";
  readonly health: "ok" | "err" | "unknown";
  readonly lastError: string;
  /** An alert's state: `inactive`, `pending` or `firing`. */
  readonly state: string | undefined;
}

const CALL_LIMIT_MS = 30_000;

type Sample = readonly [number, string];
interface Answer {
  readonly status: "success" | "error";
  readonly error?: string;
  readonly data: unknown;
}

/** Errors: Prometheus's message about the expression. */
export async function query(base: string, expression: string, atSeconds?: number): Promise<Series[]> {
  const parameters = { query: expression, ...(atSeconds !== undefined && { time: String(atSeconds) }) };
  return seriesOf(await call(base, "query", parameters));
}

export interface Range {
  readonly fromSeconds: number;
  readonly toSeconds: number;
  readonly stepSeconds: number;
}

export async function queryRange(
  base: string,
  expression: string,
  { fromSeconds, toSeconds, stepSeconds }: Range,
): Promise<Series[]> {
  const parameters = {
    query: expression,
    start: String(fromSeconds),
    end: String(toSeconds),
    step: String(stepSeconds),
  };
  return seriesOf(await call(base, "query_range", parameters));
}

export async function targets(base: string): Promise<Target[]> {
  const { activeTargets } = (await call(base, "targets", { state: "active" })) as {
    activeTargets: {
      labels: Record<string, string>;
      scrapeUrl: string;
      health: Target["health"];
      lastError: string;
    }[];
  };
  return activeTargets.map(({ labels, scrapeUrl, health, lastError }) => ({
    job: labels["job"] ?? "",
    url: scrapeUrl,
    health,
    lastError,
  }));
}

export async function rules(base: string): Promise<RuleState[]> {
  const { groups } = (await call(base, "rules", {})) as {
    groups: {
      rules: {
        name: string;
        type: RuleState["type"];
        health: RuleState["health"];
        lastError?: string;
        state?: string;
      }[];
    }[];
  };
  return groups.flatMap((group) =>
    group.rules.map(({ name, type, health, lastError, state }) => ({
      name,
      type,
      health,
      lastError: lastError ?? "",
      state,
    })),
  );
}

async function call(base: string, what: string, parameters: Record<string, string>): Promise<unknown> {
  const response = await fetch(`${base}/api/v1/${what}?${new URLSearchParams(parameters).toString()}`, {
    signal: AbortSignal.timeout(CALL_LIMIT_MS),
  });
  const answer = (await response.json()) as Answer;
  if (answer.status !== "success")
    throw new Error(`${parameters["query"] ?? what}: ${answer.error ?? String(response.status)}`);
  return answer.data;
}

function seriesOf(data: unknown): Series[] {
  const { resultType, result } = data as { resultType: string; result: unknown };
  if (resultType === "scalar") return [{ labels: {}, points: [pointOf(result as Sample)] }];
  return (result as { metric: Record<string, string>; value?: Sample; values?: Sample[] }[]).map(
    ({ metric, value, values }) => ({
      labels: metric,
      points: (values ?? (value === undefined ? [] : [value])).map(pointOf),
    }),
  );
}

/** JavaScript does not parse Prometheus's spelling of infinities. */
function pointOf([seconds, text]: Sample): [number, number] {
  if (text === "+Inf") return [seconds, Infinity];
  return [seconds, text === "-Inf" ? -Infinity : Number(text)];
}
