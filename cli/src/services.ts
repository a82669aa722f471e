// Calls to gateways and trackers over HTTP.
import { readFileSync } from "node:fs";
import { type Problem } from "@highwater/protocol";
import { tlsAuthority, trustAuthority } from "@highwater/service";
import { type Call } from "./command.ts";
import { badInput, EXIT_REFUSED, Refusal } from "./refusal.ts";

type Env = Call["env"];

export interface Service {
  readonly url: string;
  /** Rejects with a Refusal that says what to do. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
}

/**
 * `asked`: the URL from an option, or null. `variables`: the first that is set counts. `scope`:
 * what the key needs.
 */
export function serviceAt(
  asked: string | null,
  variables: readonly string[],
  env: Env,
  scope = "read",
): Service {
  const found = asked ?? variables.map((name) => (env[name] ?? "").split(",")[0]?.trim() ?? "").find(Boolean);
  if (found === undefined)
    throw badInput(`no address: set ${variables.join(" or ")}, or give it as an option`);
  if (!/^https?:\/\//.test(found) || !URL.canParse(found))
    throw badInput(`${found} is not an http or https URL`);
  const url = found.replace(/\/+$/, "");
  const headers = headersOf(env);
  trustAuthority(tlsAuthority.read(env[tlsAuthority.variable], (path) => readFileSync(path, "utf8")));
  return {
    url,
    fetch: async (path, init = {}) => {
      const response = await ask(`${url}${path}`, { ...init, headers: { ...headers, ...init.headers } });
      if (!response.ok) throw await refusalOf(response, url, scope);
      return response;
    },
  };
}

function headersOf(env: Env): Record<string, string> {
  const key = env["HIGHWATER_API_KEY"] ?? "";
  if (key === "") return {};
  return { authorization: `Bearer ${key.startsWith("@") ? readKey(key.slice(1)) : key}` };
}

function readKey(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (cause) {
    throw badInput(
      `HIGHWATER_API_KEY: ${path} cannot be read: ${String((cause as { code?: unknown }).code)}`,
    );
  }
}

async function ask(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (cause) {
    if (init.signal?.aborted === true) throw cause;
    const { cause: inner } = cause as {
      readonly cause?: { readonly code?: unknown; readonly message?: string };
    };
    const why =
      inner?.message === undefined || inner.message === "" ? String(inner?.code ?? cause) : inner.message;
    throw new Refusal([`${new URL(url).origin} does not answer: ${why}`], EXIT_REFUSED);
  }
}

/** The problem that the service describes. */
async function refusalOf(response: Response, url: string, scope: string): Promise<Refusal> {
  const problem = (await response.json().catch(() => ({}))) as Partial<Problem>;
  const { code = `status ${String(response.status)}`, title = "", detail = title } = problem;
  const lines = [`${url} answers ${code}${detail === "" ? "" : `: ${detail}`}`];
  if (response.status === 401) lines.push(`Set HIGHWATER_API_KEY to a key with the scope ${scope}.`);
  if (response.status === 404 && problem.code === undefined)
    lines.push("Is that an edge, or the right service? A gateway knows ids, a tracker tokens and events.");
  return new Refusal(lines, EXIT_REFUSED);
}
