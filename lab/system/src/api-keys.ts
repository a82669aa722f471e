// Makes API keys of a running system, with the command that operators use.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const COMMAND = fileURLToPath(new URL("../../../services/txn-gateway/src/cli/keys/main.ts", import.meta.url));

export interface KeyOptions {
  readonly name: string;
  /** Keys of one owner see each other's transactions. Default: the key's own id. */
  readonly owner?: string;
  /**
   * The database's login role for its transactions. Default: the owner's own role, which `ownRole`
   * names.
   */
  readonly role?: string;
  /** Any of read, write, webhooks and admin. */
  readonly scopes: readonly string[];
  /** Further arguments of the command, such as `--concurrency 2`. */
  readonly limits?: readonly string[];
}

/** A login role belongs to one owner, and either to keys that write or to keys that do not. */
export function ownRole({ name, owner = name, scopes }: KeyOptions): { name: string; writes: boolean } {
  const writes = scopes.includes("write");
  return { name: `app_${owner}_${writes ? "write" : "read"}`, writes };
}

/** Returns the key's text. */
export async function createKey(topologyFile: string, options: KeyOptions): Promise<string> {
  const { name, owner, role = ownRole(options).name, scopes, limits = [] } = options;
  const args = [
    ...["create", "--json", "--name", name, "--role", role, "--scopes", scopes.join(",")],
    ...(owner === undefined ? [] : ["--owner", owner]),
    ...limits,
  ];
  return /hwk_[A-Za-z0-9_-]+/.exec(await run(topologyFile, args))?.[0] ?? "";
}

export async function revokeKey(topologyFile: string, key: string): Promise<void> {
  await run(topologyFile, ["revoke", /^hwk_([a-z0-9]+)_/.exec(key)?.[1] ?? ""]);
}

async function run(topologyFile: string, args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--disable-warning=ExperimentalWarning", COMMAND, ...args],
    { env: { ...process.env, HIGHWATER_TOPOLOGY: `@${topologyFile}` } },
  );
  return stdout;
}
