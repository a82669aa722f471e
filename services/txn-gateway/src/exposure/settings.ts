// The variables that bound what may be lost: at which level it is counted, and how much of it there
// may be.
import {
  type AboutVariables,
  about,
  type Env,
  integer,
  type Range,
  rangesOf,
  type ReadFile,
  readSettings,
  type Setting,
  text,
  variablesOf,
} from "@highwater/service";
import { parseAmount, parseAtRisk, type Topology, type ValueAtRisk } from "@highwater/protocol";
import { defaultLevel } from "../txn/request.ts";

/** Whom a limit counts: everybody, the gateways of this one's region, or one key's owner. */
export type Scope = "all" | "region" | "key";
type Measure = "transactions" | "bytes" | "ageMs" | "value";

export interface ExposureLimit {
  /** As errors and metrics have it. */
  readonly name: string;
  readonly scope: Scope;
  readonly measure: Measure;
  readonly value: number;
  /** Of a limit on a value: its unit, and the exact bound. */
  readonly exact?: ValueAtRisk;
}

export interface ExposureSettings {
  readonly level: string;
  /** At least so many gateways share the limits while no tracker reports them. */
  readonly gateways: number;
  /** The units in which transactions may have values. */
  readonly units: readonly string[];
  /** Those that are on. */
  readonly limits: readonly ExposureLimit[];
}

const DAY_MS = 86_400_000;
const OFF = 0;
/** An entry takes a hundred bytes of memory or so. */
const TRANSACTIONS = 200_000;

const transactions = (variable: string, fallback: number): Setting<number> =>
  integer(variable, { fallback, min: 0, max: 10_000_000 });
const bytes = (variable: string): Setting<number> =>
  integer(variable, { fallback: OFF, min: 0, max: 1_000_000_000_000_000 });
const ageMs = (variable: string): Setting<number> =>
  integer(variable, { fallback: OFF, min: 0, max: 30 * DAY_MS });

const SETTINGS = {
  level: text("GATEWAY_EXPOSURE_LEVEL", ""),
  gateways: integer("GATEWAY_EXPOSURE_GATEWAYS", { fallback: 1, min: 1, max: 10_000 }),
  exposureTransactions: transactions("GATEWAY_EXPOSURE_TRANSACTIONS", TRANSACTIONS),
  exposureBytes: bytes("GATEWAY_EXPOSURE_BYTES"),
  exposureAgeMs: ageMs("GATEWAY_EXPOSURE_AGE_MS"),
  exposureRegionTransactions: transactions("GATEWAY_EXPOSURE_REGION_TRANSACTIONS", OFF),
  exposureRegionBytes: bytes("GATEWAY_EXPOSURE_REGION_BYTES"),
  exposureRegionAgeMs: ageMs("GATEWAY_EXPOSURE_REGION_AGE_MS"),
  exposureKeyTransactions: transactions("GATEWAY_EXPOSURE_KEY_TRANSACTIONS", OFF),
  exposureKeyBytes: bytes("GATEWAY_EXPOSURE_KEY_BYTES"),
  exposureKeyAgeMs: ageMs("GATEWAY_EXPOSURE_KEY_AGE_MS"),
  exposureValue: text("GATEWAY_EXPOSURE_VALUE", ""),
  exposureKeyValue: text("GATEWAY_EXPOSURE_KEY_VALUE", ""),
} as const;

const LIMITS: readonly [keyof typeof SETTINGS, Scope, Measure][] = [
  ["exposureTransactions", "all", "transactions"],
  ["exposureBytes", "all", "bytes"],
  ["exposureAgeMs", "all", "ageMs"],
  ["exposureRegionTransactions", "region", "transactions"],
  ["exposureRegionBytes", "region", "bytes"],
  ["exposureRegionAgeMs", "region", "ageMs"],
  ["exposureKeyTransactions", "key", "transactions"],
  ["exposureKeyBytes", "key", "bytes"],
  ["exposureKeyAgeMs", "key", "ageMs"],
];

export const EXPOSURE_VARIABLES: readonly string[] = variablesOf(SETTINGS);
export const EXPOSURE_RANGES: ReadonlyMap<string, Range> = rangesOf(SETTINGS);

const HTTP = "[http.md](http.md#exposure)";

/** For the table of variables. */
export const ABOUT_EXPOSURE: AboutVariables = {
  GATEWAY_EXPOSURE_LEVEL: about(
    "the exposure level: a transaction that is not durable at it is exposed; must equal the trackers' `TRACKER_EXPOSURE_LEVEL`",
    "`region`, or the strongest level",
  ),
  GATEWAY_EXPOSURE_GATEWAYS: about(
    "number of gateways that share the limits while a gateway reaches no tracker; the last known number counts if it is higher",
  ),
  GATEWAY_EXPOSURE_TRANSACTIONS: about(
    `limit on the exposed transactions of all gateways; 0, in each limit of exposure: no limit. ${HTTP}`,
  ),
  GATEWAY_EXPOSURE_BYTES: about("limit on the log that has not reached the exposure level"),
  GATEWAY_EXPOSURE_AGE_MS: about("limit on the age of the oldest exposed transaction"),
  GATEWAY_EXPOSURE_REGION_TRANSACTIONS: about(
    "limit on the exposed transactions of all gateways in this gateway's region",
  ),
  GATEWAY_EXPOSURE_REGION_BYTES: about(
    "limit on the log, up to this gateway's newest commit, that has not reached the exposure level",
  ),
  GATEWAY_EXPOSURE_REGION_AGE_MS: about("limit on the age of this gateway's oldest exposed transaction"),
  GATEWAY_EXPOSURE_KEY_TRANSACTIONS: about("limit on the exposed transactions of one owner"),
  GATEWAY_EXPOSURE_KEY_BYTES: about(
    "limit on the log, up to the owner's newest commit on this gateway, that has not reached the exposure level",
  ),
  GATEWAY_EXPOSURE_KEY_AGE_MS: about(
    "limit on the age of the owner's oldest exposed transaction on this gateway",
  ),
  GATEWAY_EXPOSURE_VALUE: about(
    "limits on the [value at risk](../guide/fast-and-safe.md#value-at-risk) of all gateways, by unit, such as `EUR:100000,USD:0`; 0: no limit. At most 8 units",
    "no unit",
  ),
  GATEWAY_EXPOSURE_KEY_VALUE: about(
    "limits on the value at risk of one owner, by unit, such as `EUR:2500.50`",
    "no unit",
  ),
};

/** `topology`: undefined where that has faults itself. */
export function readExposure(
  env: Env,
  readFile: ReadFile,
  topology: Topology | undefined,
): { readonly settings: ExposureSettings; readonly faults: readonly string[] } {
  const { values, faults } = readSettings(SETTINGS, env, readFile);
  const levels = Object.keys(topology?.levels ?? {});
  const level = values.level === "" && levels.length > 0 ? defaultLevel(levels) : values.level;
  if (levels.length > 0 && !levels.includes(level))
    faults.push(`GATEWAY_EXPOSURE_LEVEL is not a configured level; use one of ${levels.join(", ")}`);
  const limits: ExposureLimit[] = LIMITS.flatMap(([name, scope, measure]) => {
    const value = values[name];
    return typeof value === "number" && value > 0 ? [{ name, scope, measure, value }] : [];
  });
  const all = readValues("GATEWAY_EXPOSURE_VALUE", values.exposureValue, faults);
  const perKey = readValues("GATEWAY_EXPOSURE_KEY_VALUE", values.exposureKeyValue, faults);
  const units = [...new Set([...all, ...perKey].map(({ unit }) => unit))];
  limits.push(...valueLimits("exposureValue", "all", all), ...valueLimits("exposureKeyValue", "key", perKey));
  return { settings: Object.freeze({ level, gateways: values.gateways, units, limits }), faults };
}

const UNITS_MAX = 8;

function readValues(variable: string, given: string, faults: string[]): readonly ValueAtRisk[] {
  if (given === "") return [];
  const values = given.split(",").map((one) => {
    const [unit = "", amount = ""] = one.split(":").map((part) => part.trim());
    const read = parseAtRisk(`${amount} ${unit}`);
    if (read === undefined)
      faults.push(`${variable} has "${one}"; each must be a unit and an amount, such as EUR:2500.50`);
    return read ?? { unit, amount: "0" };
  });
  const isUnique = new Set(values.map(({ unit }) => unit)).size === values.length;
  if (!isUnique || values.length > UNITS_MAX)
    faults.push(`${variable} must have at most ${String(UNITS_MAX)} units, each once`);
  return values;
}

function valueLimits(name: string, scope: Scope, values: readonly ValueAtRisk[]): ExposureLimit[] {
  return values
    .filter(({ amount }) => parseAmount(amount) > 0n)
    .map((exact) => {
      const value = Number(exact.amount);
      return { name: `${name}${exact.unit}`, scope, measure: "value", value, exact };
    });
}
