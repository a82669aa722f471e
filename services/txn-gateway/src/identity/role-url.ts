// Logging in to a node as a key's role: the node's connection string with another user, and the
// passwords of the roles.
import { HighwaterError } from "@highwater/protocol";

/**
 * The same server, database and options for another role. Without a password none is sent: the
 * server must then trust the connection by its own rules. Errors: `internal`, which does not quote
 * the URL, for it holds a password.
 */
export function roleUrl(nodeUrl: string, role: string, password: string | undefined): string {
  const refused = (): HighwaterError =>
    new HighwaterError("internal", {
      detail: "The node's connection string must be a postgres URL to log in as a key's role.",
      outcome: "not_applied",
    });
  if (!/^postgres(?:ql)?:\/\//i.test(nodeUrl) || !URL.canParse(nodeUrl)) throw refused();
  const url = new URL(nodeUrl);
  // They would win over the user before the host. A part that is not there is left alone: to delete
  // it would rewrite the rest.
  for (const name of ["user", "password"]) if (url.searchParams.has(name)) url.searchParams.delete(name);
  if (url.host === "") {
    // A socket's folder is named in the options, and a URL without a host cannot hold a user.
    url.searchParams.set("user", role);
    if (password !== undefined) url.searchParams.set("password", password);
    return url.href;
  }
  // Encoded here: the setters leave a percent sign as it is.
  url.username = encodeURIComponent(role);
  url.password = password === undefined ? "" : encodeURIComponent(password);
  return url.href;
}

export type RolePasswords =
  | { readonly ok: true; readonly passwords: ReadonlyMap<string, string> }
  | { readonly ok: false; readonly faults: readonly string[] };

/** A JSON object, role -> password. Faults name roles and never quote a value. */
export function parseRolePasswords(json: string): RolePasswords {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch {
    // The parser's message quotes the text.
    return { ok: false, faults: ["is not JSON"] };
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed))
    return { ok: false, faults: ["must be a JSON object of passwords by role"] };
  const entries = Object.entries(parsed as Record<string, unknown>);
  const faults = entries.flatMap(([role, password]) =>
    typeof password === "string" && password !== "" ? [] : [`the password of ${role} must be a text`],
  );
  if (faults.length > 0) return { ok: false, faults };
  return { ok: true, passwords: new Map(entries as [string, string][]) };
}
