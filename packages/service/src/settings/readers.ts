// The types of settings: integers, texts, durations and so on.
import { Topology, topologyFaults, validate } from "@highwater/protocol";
import { COCKROACH_REFUSAL } from "@highwater/store";
import { Faults, type Range, type ReadFile, type Setting } from "./setting.ts";

export function text(variable: string, fallback?: string): Setting<string> {
  return {
    variable,
    read: (value) => {
      const found = value === undefined || value === "" ? fallback : value;
      if (found === undefined) throw new Faults("is required");
      return found;
    },
  };
}

export function name(variable: string): Setting<string> {
  const { read } = text(variable);
  return {
    variable,
    read: (value, readFile) => {
      const found = read(value, readFile);
      if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/.test(found))
        throw new Faults(
          "must be 1 to 40 letters, digits, '.', '_' or '-', beginning with a letter or digit",
        );
      return found;
    },
  };
}

export function integer(variable: string, range: Range): Setting<number> {
  return {
    variable,
    range,
    read: (value) => {
      if (value === undefined || value === "") return range.fallback;
      const number = Number(value);
      if (!/^[0-9]+$/.test(value) || number < range.min || number > range.max)
        throw new Faults(`must be a whole number from ${String(range.min)} to ${String(range.max)}`);
      return number;
    },
  };
}

/** `true` or `false`; false when it is not set. */
export function flag(variable: string): Setting<boolean> {
  return {
    variable,
    read: (value) => {
      if (value === undefined || value === "" || value === "false") return false;
      if (value === "true") return true;
      throw new Faults("must be true or false");
    },
  };
}

/** One of the values; empty means the first. */
export function choice<const Value extends string>(
  variable: string,
  values: readonly [Value, ...Value[]],
): Setting<Value> {
  const [first] = values;
  return {
    variable,
    read: (value) => {
      if (value === undefined || value === "") return first;
      const found = values.find((each) => each === value);
      if (found !== undefined) return found;
      throw new Faults(`must be ${values.slice(0, -1).join(", ")} or ${values.at(-1) ?? ""}`);
    },
  };
}

const SECRET_CHARS_MIN = 16;

/** A secret, or `@` and the path of a file that contains it. Null when it is not set. */
export function secret(variable: string): Setting<string | null> {
  return {
    variable,
    read: (value, readFile) => {
      if (value === undefined || value === "") return null;
      // Files usually end with a newline.
      const found = value.startsWith("@") ? readText(value.slice(1), readFile).trim() : value;
      if (found.length >= SECRET_CHARS_MIN) return found;
      throw new Faults(`must have at least ${String(SECRET_CHARS_MIN)} characters`);
    },
  };
}

/** Base URLs, separated by commas, in order; without trailing slashes and duplicates. */
export function urls(variable: string): Setting<readonly string[]> {
  return {
    variable,
    read: (value) => {
      const found = listOf(value);
      const faults = found.flatMap((url, index) =>
        isHttpUrl(url) ? [] : [`entry ${String(index)} is not an http or https URL`],
      );
      if (faults.length > 0) throw new Faults(...faults);
      return Object.freeze([...new Set(found.map((url) => url.replace(/\/+$/, "")))]);
    },
  };
}

/** Origins of pages as browsers write them, separated by commas. `*` is not accepted. */
export function origins(variable: string): Setting<readonly string[]> {
  return {
    variable,
    read: (value) => {
      const found = listOf(value);
      const faults = found.flatMap((origin, index) =>
        isHttpUrl(origin) && new URL(origin).origin === origin
          ? []
          : [`entry ${String(index)} is not an origin, such as https://app.example.com`],
      );
      if (faults.length > 0) throw new Faults(...faults);
      return Object.freeze([...new Set(found)]);
    },
  };
}

/** Nodes and levels as JSON, or `@` and the path of a file that contains it. */
export const topology: Setting<Topology> = {
  variable: "HIGHWATER_TOPOLOGY",
  read: (value, readFile) => {
    if (value === undefined || value === "") throw new Faults("is required");
    return parseTopology(value.startsWith("@") ? readText(value.slice(1), readFile) : value);
  },
};

/** Errors: Faults. */
export function parseTopology(json: string): Topology {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch {
    // The parser's message would quote the text, which contains passwords.
    throw new Faults("is not JSON");
  }
  if (asksForCockroach(parsed)) throw new Faults(COCKROACH_REFUSAL);
  const checked = validate(Topology, parsed);
  if (!checked.ok) throw new Faults(...checked.faults);
  const faults = topologyFaults(checked.value);
  if (faults.length > 0) throw new Faults(...faults);
  return checked.value;
}

/** As a field of its own, or by the scheme of a node's URL. */
function asksForCockroach(parsed: unknown): boolean {
  const { store, nodes } = (parsed ?? {}) as { readonly store?: unknown; readonly nodes?: unknown };
  const urls = Array.isArray(nodes) ? nodes.map((node: { readonly url?: unknown } | null) => node?.url) : [];
  return [store, ...urls].some((name) => typeof name === "string" && /^cockroach/i.test(name));
}

/** Errors: Faults. */
export function readText(path: string, readFile: ReadFile): string {
  try {
    return readFile(path);
  } catch (cause) {
    throw new Faults(`the file cannot be read: ${String((cause as { code?: unknown }).code)}`);
  }
}

export function listOf(value: string | undefined): string[] {
  return (value ?? "")
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

function isHttpUrl(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

/** Host and port of a URL, which may appear in logs and metrics. */
export function hostOf(url: string): string {
  return new URL(url).host;
}

const LOOPBACK = new Set(["127.0.0.1", "::1", "localhost"]);

/** An address or a name without a port and without brackets. */
export function isLoopback(host: unknown): boolean {
  return LOOPBACK.has(String(host).toLowerCase());
}
