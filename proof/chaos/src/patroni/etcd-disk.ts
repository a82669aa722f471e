// Makes the disk under a running etcd slow or full. strace delays the server's writes to its files
// or fails them with ENOSPC; all other calls go through. A full quota needs no strace: etcd has an
// alarm for it.
import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Etcd } from "@highwater/lab-cluster";
import { endGuarded, eventually, spawnGuarded, untilTrue } from "@highwater/lab-tools/process";

const ATTACH_LIMIT_MS = 10_000;
const REFUSED_LIMIT_MS = 20_000;
const WRITES = "write,pwrite64";

/** Returns why strace cannot be used here; null if it can. */
export function withoutStrace(): Promise<string | null> {
  const attempt = "sleep 0.2 & exec strace -o /dev/null -p $!";
  return promisify(execFile)("/bin/sh", ["-c", attempt]).then(
    () => null,
    () => "there is no strace, or no process may be traced",
  );
}

/** Delays every write. Resolves once a write was slow, with the function that ends it. */
export async function slowDownDisk(etcd: Etcd, delayMs: number): Promise<() => Promise<void>> {
  const release = await tamper(etcd, `delay_enter=${String(Math.round(delayMs * 1_000))}`);
  const beganAtMs = performance.now();
  // Before etcd 3.5.5, a lone member answers the first request before it writes it (etcd issue
  // 14370). The second one waits for that write.
  const isSlow = await put(etcd)
    .then(() => put(etcd))
    .then(
      () => performance.now() - beganAtMs >= delayMs,
      () => true,
    );
  if (isSlow) return release;
  await release();
  throw new Error("etcd writes as fast as before");
}

/**
 * Fails every write. Resolves when the server has exited because of it; its files stay as they are.
 */
export async function fillDisk(etcd: Etcd): Promise<void> {
  const release = await tamper(etcd, "error=ENOSPC");
  try {
    await put(etcd).catch(() => undefined);
    await eventually("etcd is out of space", async () => (await etcd.pid()) === undefined, REFUSED_LIMIT_MS);
  } finally {
    await release();
  }
}

/**
 * Raises the alarm that etcd raises when its quota is used up: it refuses writes until the returned
 * function is called.
 */
export async function fillQuota(etcd: Etcd): Promise<() => Promise<void>> {
  const alarm = async (action: "ACTIVATE" | "DEACTIVATE"): Promise<void> => {
    await etcd.call("/v3/maintenance/alarm", { action, alarm: "NOSPACE" });
  };
  await alarm("ACTIVATE");
  const isFull = await put(etcd).then(
    () => false,
    () => true,
  );
  if (isFull) return () => alarm("DEACTIVATE");
  await alarm("DEACTIVATE");
  throw new Error("etcd writes as before");
}

async function put(etcd: Etcd): Promise<void> {
  await etcd.call("/v3/kv/put", { key: "Y2hhb3M=", value: "Y2hhb3M=" });
}

/** Only writes to its log and its database: it uses the same calls for connections. */
async function tamper(etcd: Etcd, how: string): Promise<() => Promise<void>> {
  const pid = await etcd.pid();
  if (pid === undefined) throw new Error("etcd is not running");
  const member = join(etcd.dataDir, "member");
  const logs = (await readdir(join(member, "wal"))).map((name) => join(member, "wal", name));
  const files = [...logs, join(member, "snap", "db")].flatMap((file) => ["-P", file]);
  const inject = ["-e", `trace=${WRITES}`, "-e", `inject=${WRITES}:${how}`];
  const strace = spawnGuarded(["strace", "-f", "-o", "/dev/null", ...files, ...inject, "-p", String(pid)], {
    stderr: "pipe",
  });
  strace.unref();
  let said = "";
  strace.stderr?.setEncoding("utf8").on("data", (text: string) => (said += text));
  try {
    await untilTrue(strace, () => Promise.resolve(said.includes(" attached")), { limitMs: ATTACH_LIMIT_MS });
  } catch (cause) {
    await endGuarded(strace);
    throw new Error(`strace: ${said.trim()}`, { cause });
  }
  return () => endGuarded(strace);
}
