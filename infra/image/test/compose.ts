// Reads compose.yaml as Compose does, as far as that file uses it.
import { readFileSync } from "node:fs";
import { parse } from "yaml";

export interface Service {
  readonly image: string;
  readonly user?: string;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly tmpfs?: readonly string[];
  readonly ports?: readonly string[];
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly profiles?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: { readonly test: readonly string[] };
}

export interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

type Env = Readonly<Record<string, string>>;

/** The file with the variables of `.env` in their places. Errors: a required variable is missing. */
export function readCompose(file: string, env: Env): Compose {
  const document: unknown = parse(readFileSync(file, "utf8"), { merge: true });
  return interpolate(document, env) as Compose;
}

function interpolate(value: unknown, env: Env): unknown {
  if (typeof value === "string") return fill(value, env);
  if (Array.isArray(value)) return value.map((each) => interpolate(each, env));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, interpolate(each, env)]));
}

function fill(text: string, env: Env): string {
  return text.replaceAll(
    /\$\{(\w+)(?::([-?])([^}]*))?\}/g,
    (_, name: string, operator: string | undefined, operand: string = "") => {
      const value = env[name] ?? "";
      if (value !== "") return value;
      if (operator === "-") return operand;
      throw new Error(`${name} is not set: ${operand}`);
    },
  );
}

/** In an order in which each comes behind those that it depends on. */
export function inOrder(services: Compose["services"]): string[] {
  const ordered = new Set<string>();
  const visit = (name: string): void => {
    for (const earlier of Object.keys(services[name]?.depends_on ?? {})) visit(earlier);
    ordered.add(name);
  };
  for (const name of Object.keys(services)) visit(name);
  return [...ordered];
}
