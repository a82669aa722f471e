// Starts the telemetry of one service. If it is off, none of its libraries are loaded.
import { type LogEntry } from "../log.ts";
import { type Family } from "../metrics/family.ts";
import type { ExporterOptions } from "./open-telemetry.ts";
import { type TelemetrySettings } from "./settings.ts";
import { Tracer } from "./tracer.ts";

export interface TelemetryOptions extends ExporterOptions {
  /** A random number, evenly distributed in [0, 1). */
  readonly random: () => number;
}

export interface Telemetry {
  /** Undefined when traces are off. */
  readonly tracer: Tracer | undefined;
  readonly onLog: ((entry: LogEntry) => void) | null;
  /** Exports these metrics from now on. */
  readonly serve: (families: () => readonly Family[]) => void;
  /** Exports the rest. Never rejects. */
  readonly close: () => Promise<void>;
}

export async function startTelemetry(
  settings: TelemetrySettings,
  options: TelemetryOptions,
): Promise<Telemetry> {
  const { makeExporters } = await import("./open-telemetry.ts");
  let families: () => readonly Family[] = () => [];
  const { onSpan, onLog, close } = makeExporters(settings, options, () => families());
  const { clock, random } = options;
  const { sampling, traces } = settings;
  return {
    tracer: traces ? new Tracer({ sampling, clock, random, onSpan }) : undefined,
    onLog,
    serve: (read) => {
      families = read;
    },
    close,
  };
}
