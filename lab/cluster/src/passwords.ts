// Log-ins by password. A cluster trusts every connection from this machine.
import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { eventually } from "@highwater/lab-tools/process";
import pg from "pg";
import type { ConnectionOptions, NodeInfo, Row } from "./types.ts";

interface Nodes {
  readonly nodes: readonly NodeInfo[];
  connectionString(nodeId: string, options?: ConnectionOptions): Promise<string>;
  query(nodeId: string, sql: string): Promise<Row[]>;
}

/**
 * From now on the node asks these roles, which exist, for their passwords. Resolves when it does
 * so.
 */
export async function demandPasswords(cluster: Nodes, node: string, roles: readonly string[]): Promise<void> {
  const file = join(cluster.nodes.find(({ id }) => id === node)?.dataDir ?? "", "pg_hba.conf");
  const names = roles.map((role) => `"${role.replaceAll('"', '""')}"`).join(",");
  await writeFile(file, `host all ${names} all scram-sha-256\n${await readFile(file, "utf8")}`);
  await chmod(file, 0o644);
  await cluster.query(node, "SELECT pg_reload_conf()");
  for (const user of roles) {
    const url = await cluster.connectionString(node, { user });
    await eventually(`${node} asks ${user} for a password`, async () => !(await isAdmitted(url)));
  }
}

async function isAdmitted(connectionString: string): Promise<boolean> {
  const client = new pg.Client({ connectionString });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end();
  }
}
