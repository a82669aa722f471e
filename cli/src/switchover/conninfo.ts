// The connection strings with which standbys follow their primary.
import { conninfoOf } from "../postgres.ts";

export interface Upstream {
  readonly host: string;
  readonly port: string;
}

/**
 * Makes libpq connect only where it can write. A standby with it follows its upstream as soon as
 * that is promoted, and never before.
 */
const ONLY_WRITABLE = ["target_session_attrs", "read-write"] as const;

/** The same login for another upstream. Null `name`: it keeps its application_name. */
export function pointedAt(
  conninfo: string,
  { host, port }: Upstream,
  { name, onlyWritable }: { readonly name: string | null; readonly onlyWritable: boolean },
): string {
  const parameters = parse(conninfo);
  for (const unwanted of ["hostaddr", ONLY_WRITABLE[0], "load_balance_hosts"]) parameters.delete(unwanted);
  parameters.set("host", host).set("port", port);
  if (name !== null) parameters.set("application_name", name);
  if (onlyWritable) parameters.set(...ONLY_WRITABLE);
  return [...parameters].map(([key, value]) => `${key}=${quoted(value)}`).join(" ");
}

/** It follows its upstream only while that is writable, or only while it is not. */
export function isChoosy(conninfo: string): boolean {
  return !["", "any"].includes(parse(conninfo).get(ONLY_WRITABLE[0]) ?? "");
}

/** Of one of both forms that libpq reads. */
function parse(conninfo: string): Map<string, string> {
  if (!/^postgres(?:ql)?:\/\//i.test(conninfo)) return conninfoOf(conninfo);
  const url = new URL(conninfo);
  const parts = {
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    dbname: decodeURIComponent(url.pathname.slice(1)),
  };
  const given = Object.entries(parts).filter(([, value]) => value !== "");
  return new Map([...given, ...url.searchParams]);
}

function quoted(value: string): string {
  return /^[^\s'\\]+$/.test(value) ? value : `'${value.replaceAll(/['\\]/g, String.raw`\$&`)}'`;
}
