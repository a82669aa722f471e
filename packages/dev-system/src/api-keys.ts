// API keys of a running system, made by the command that operators use.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const COMMAND = fileURLToPath(new URL("../../../services/txn-gateway/src/cli/keys/main.ts", import.meta.url));

export interface KeyOptions {
  readonly name: string;
  /** Keys of one owner see each other's transactions; the key's own id unless given. */
  readonly owner?: string;
  /** The database's login role that its transactions run as; the dev system's application role when absent. */
  readonly role?: string;
  /** Of read, write, admin. */
  readonly scopes: readonly string[];
}

/** The key's text. */
export async function createKey(topologyFile: string, appRole: string, options: KeyOptions): Promise<string> {
  const { name, owner, role = appRole, scopes } = options;
  const args = [
    ...["create", "--json", "--name", name, "--role", role, "--scopes", scopes.join(",")],
    ...(owner === undefined ? [] : ["--owner", owner]),
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
