// Which parts of telemetry are on, by OpenTelemetry's standard variables. Off by default, because
// it needs a destination. The SDK and its exporters read endpoints, headers and batch sizes
// themselves.
import { type Env } from "../settings/setting.ts";

export interface TelemetrySettings {
  readonly traces: boolean;
  readonly metrics: boolean;
  readonly logs: boolean;
  readonly metricsEveryMs: number;
  readonly sampling: Sampling;
}

/**
 * Which transactions without an error are traced. `parent`: follows the decision in the request, if
 * there is one.
 */
export interface Sampling {
  readonly parent: boolean;
  readonly ratio: number;
}

/** The default of the standard. */
const METRICS_EVERY_MS = 60_000;
/** The default: it keeps telemetry within its 5% of processor time. */
const RATIO_DEFAULT = 0.01;
const PROTOCOL = "http/protobuf";
const SIGNALS = ["TRACES", "METRICS", "LOGS"] as const;
const SAMPLERS: Readonly<Record<string, { readonly parent: boolean; readonly ratio: number | null }>> = {
  always_on: { parent: false, ratio: 1 },
  always_off: { parent: false, ratio: 0 },
  traceidratio: { parent: false, ratio: null },
  parentbased_always_on: { parent: true, ratio: 1 },
  parentbased_always_off: { parent: true, ratio: 0 },
  parentbased_traceidratio: { parent: true, ratio: null },
};

export const TELEMETRY_VARIABLES = [
  "OTEL_SDK_DISABLED",
  "OTEL_EXPORTER_OTLP_ENDPOINT",
  ...SIGNALS.flatMap((signal) => [`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`, `OTEL_${signal}_EXPORTER`]),
  "OTEL_EXPORTER_OTLP_PROTOCOL",
  "OTEL_METRIC_EXPORT_INTERVAL",
  "OTEL_TRACES_SAMPLER",
  "OTEL_TRACES_SAMPLER_ARG",
] as const;

/** `settings`: null when all of it is off. `faults`: one line each, beginning with the variable. */
export function readTelemetry(env: Env): {
  readonly settings: TelemetrySettings | null;
  readonly faults: readonly string[];
} {
  if (env["OTEL_SDK_DISABLED"]?.trim().toLowerCase() === "true") return { settings: null, faults: [] };
  const faults: string[] = [];
  const [traces, metrics, logs] = SIGNALS.map((signal) => isOn(env, signal, faults));
  if (traces !== true && metrics !== true && logs !== true) return { settings: null, faults };
  for (const signal of ["", ...SIGNALS.map((name) => `${name}_`)]) {
    const variable = `OTEL_EXPORTER_OTLP_${signal}PROTOCOL`;
    const protocol = env[variable] ?? "";
    if (protocol !== "" && protocol !== PROTOCOL) faults.push(`${variable} must be ${PROTOCOL}`);
  }
  const sampling = readSampling(env, faults);
  const metricsEveryMs = Number(env["OTEL_METRIC_EXPORT_INTERVAL"] ?? METRICS_EVERY_MS);
  if (!Number.isInteger(metricsEveryMs) || metricsEveryMs <= 0)
    faults.push("OTEL_METRIC_EXPORT_INTERVAL must be a whole number of milliseconds");
  const on = { traces: traces === true, metrics: metrics === true, logs: logs === true };
  return { settings: { ...on, metricsEveryMs, sampling }, faults };
}

function isOn(env: Env, signal: (typeof SIGNALS)[number], faults: string[]): boolean {
  const variable = `OTEL_${signal}_EXPORTER`;
  const exporter = (env[variable] ?? "").trim();
  if (exporter !== "" && exporter !== "otlp" && exporter !== "none")
    faults.push(`${variable} must be otlp or none`);
  if (exporter !== "") return exporter === "otlp";
  const endpoints = [env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`], env["OTEL_EXPORTER_OTLP_ENDPOINT"]];
  return endpoints.some((endpoint) => (endpoint ?? "") !== "");
}

function readSampling(env: Env, faults: string[]): Sampling {
  const name = env["OTEL_TRACES_SAMPLER"] ?? "";
  const sampler = SAMPLERS[name === "" ? "parentbased_traceidratio" : name];
  if (sampler === undefined) {
    faults.push(`OTEL_TRACES_SAMPLER must be one of ${Object.keys(SAMPLERS).join(", ")}`);
    return { parent: true, ratio: RATIO_DEFAULT };
  }
  const text = env["OTEL_TRACES_SAMPLER_ARG"] ?? "";
  const given = text === "" ? (name === "" ? RATIO_DEFAULT : 1) : Number(text);
  if (!(given >= 0 && given <= 1)) faults.push("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1");
  return { parent: sampler.parent, ratio: sampler.ratio ?? given };
}
