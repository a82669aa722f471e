// Launches servers: one initdb, cold copies for the replicas, ports, configuration, start.

import { execFile, spawn } from "node:child_process";
import { chown, mkdir, rm } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { type Binaries, findBinaries } from "./binaries.ts";
import { Clocks } from "./clocks.ts";
import { coldCopy } from "./clone.ts";
import { DevClusterError } from "./errors.ts";
import type { PlannedNode } from "./layout.ts";
import type { Network } from "./network.ts";
import { chooseFreePort, isPortFree } from "./ports.ts";
import { PostgresNode, serverEnvironment } from "./postgres-node.ts";
import { copyTemplate } from "./template.ts";
import type { ClusterOptions } from "./types.ts";
import { chooseIdentity, type Identity } from "./unprivileged.ts";

const portAttemptsMax = 5;
const run = promisify(execFile);

export interface LaunchContext {
  dir: string;
  options: ClusterOptions;
  planned: readonly PlannedNode[];
  network: Network;
  onProcessChange: () => void;
  /** Aborted when the caller has ended: nothing may be started any more. */
  signal: AbortSignal;
  /** Called as soon as a node exists, so that a failed launch can be cleaned up. */
  onNode: (node: PostgresNode) => void;
}

export async function launchNodes(context: LaunchContext): Promise<PostgresNode[]> {
  const { dir, options, planned } = context;
  const identity = await chooseIdentity(options.runAs);
  for (const name of ["nodes", "logs", "snapshots"]) {
    await mkdir(path.join(dir, name), { mode: 0o700 });
    if (identity) await chown(path.join(dir, name), identity.uid, identity.gid);
  }
  const binaries = await findBinaries({
    binDir: options.pgBinDir,
    identity,
    copyTo: path.join(options.templateDir ?? dir, "native"),
  });
  const ports = await choosePorts(planned);
  const clocks = options.wallClocks === undefined ? null : await Clocks.make(dir, options.wallClocks);
  const environments = await Promise.all(
    planned.map(async ({ id }) => (await clocks?.environment(id)) ?? {}),
  );
  const nodes = planned.map(({ id, region, zone }, index) => {
    const node = new PostgresNode({
      id,
      region,
      zone,
      port: ports[index] as number,
      dir,
      binaries,
      identity,
      settings: options.settings ?? {},
      environment: environments[index] ?? {},
      onProcessChange: context.onProcessChange,
    });
    context.onNode(node);
    return node;
  });
  const [primary, ...replicas] = nodes as [PostgresNode, ...PostgresNode[]];
  const make = (dataDir: string): Promise<void> => initialise(dataDir, binaries, identity, context.signal);
  if (options.templateDir === undefined) await make(primary.dataDir);
  else {
    const name = `${binaries.version}-${identity?.uid ?? "own"}`;
    await copyTemplate({ folder: options.templateDir, name, identity, initialise: make }, primary.dataDir);
  }
  // Copied before the first start, so that all nodes share one system identifier and one history.
  await Promise.all(replicas.map((node) => coldCopy(primary.dataDir, node.dataDir)));
  await startAll(nodes, context);
  return nodes;
}

async function startAll(nodes: readonly PostgresNode[], context: LaunchContext): Promise<void> {
  const primary = nodes[0] as PostgresNode;
  for (let attempt = 1; ; attempt++) {
    await Promise.all(
      nodes.map(async (node) => {
        if (node === primary) return node.configure(undefined);
        const port = await context.network.portFor(primary, node.region);
        return node.configure({ id: primary.id, port });
      }),
    );
    const results = await Promise.allSettled(nodes.map((node) => node.start()));
    const failure = results.find((result) => result.status === "rejected");
    if (failure === undefined) return;
    const lostPorts = nodes.filter((_, index) => {
      const result = results[index];
      const error: unknown = result?.status === "rejected" ? result.reason : undefined;
      const isFixed = context.planned[index]?.port !== undefined;
      return error instanceof DevClusterError && error.code === "PORT_IN_USE" && !isFixed;
    });
    // Another process took a chosen port before the start: stops everything and chooses again.
    if (lostPorts.length === 0 || attempt === portAttemptsMax) throw failure.reason;
    await Promise.all(nodes.filter((node) => node.isRunning).map((node) => node.stop("fast")));
    const taken = new Set(nodes.map((node) => node.port));
    for (const node of lostPorts) {
      node.port = await chooseFreePort(taken);
      taken.add(node.port);
    }
  }
}

async function choosePorts(planned: readonly PlannedNode[]): Promise<number[]> {
  const taken = new Set(planned.flatMap((node) => node.port ?? []));
  const ports: number[] = [];
  for (const { id, port: fixed } of planned) {
    if (fixed !== undefined && !(await isPortFree(fixed))) {
      throw new DevClusterError("PORT_IN_USE", `port ${fixed} of node ${id} is in use by another program`);
    }
    const port = fixed ?? (await chooseFreePort(taken));
    taken.add(port);
    ports.push(port);
  }
  return ports;
}

/**
 * Runs initdb, and makes the database `app` in single-user mode, which is quicker than starting and
 * stopping a server.
 */
async function initialise(
  dataDir: string,
  binaries: Binaries,
  identity: Identity | undefined,
  abort: AbortSignal,
): Promise<void> {
  abort.throwIfAborted();
  const how = { ...identity, cwd: "/", env: serverEnvironment() };
  const flags = ["--no-sync", "--no-locale", "--encoding=UTF8", "--auth=trust", "--username=postgres"];
  try {
    await run(binaries.initdb, ["-D", dataDir, ...flags, "--no-instructions"], how);
    abort.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
      const server = spawn(binaries.postgres, ["--single", "-F", "-j", "-D", dataDir, "postgres"], {
        ...how,
        stdio: ["pipe", "ignore", "pipe"],
      });
      let log = "";
      server.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
      server.once("error", reject);
      server.once("close", (code) => {
        if (code === 0 && !/^.*(ERROR|FATAL|PANIC):/m.test(log)) resolve();
        else reject(new Error(log.trim()));
      });
      server.stdin.end("CREATE DATABASE app;\n\n");
    });
  } catch (cause) {
    await rm(dataDir, { recursive: true, force: true });
    const detail = (cause as { stderr?: string }).stderr ?? (cause as Error).message;
    throw new DevClusterError("START_FAILED", `initdb failed: ${detail.trim()}`, { cause });
  }
}
