// Data folders made once by initdb, from which clusters are copied. Each copy gets its own system
// identifier, so that two clusters from one template are as unrelated as two from initdb.

import { randomBytes } from "node:crypto";
import { chown, mkdir, mkdtemp, open, readdir, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { coldCopy } from "./clone.ts";
import { DevClusterError } from "./errors.ts";
import type { Identity } from "./unprivileged.ts";

export interface TemplateUse {
  /** The folder of templates. Several processes may use it at once. */
  readonly folder: string;
  /** The name of everything that the template depends on: the server's version and its user. */
  readonly name: string;
  readonly identity: Identity | undefined;
  /** Initialises a data folder that does not exist yet. */
  readonly initialise: (dataDir: string) => Promise<void>;
}

/** Copies the template to `dataDir`; makes the template first if it is missing. */
export async function copyTemplate(use: TemplateUse, dataDir: string): Promise<void> {
  const template = path.join(use.folder, use.name);
  if (!(await exists(template))) await makeTemplate(use, template);
  await coldCopy(template, dataDir);
  await renewSystemIdentifier(dataDir);
}

async function makeTemplate({ folder, identity, initialise }: TemplateUse, template: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const own = await mkdtemp(path.join(folder, "new-"));
  try {
    if (identity) await chown(own, identity.uid, identity.gid);
    await initialise(path.join(own, "data"));
    await rename(path.join(own, "data"), template).catch(async (error: unknown) => {
      // Another process was faster, and its template is equally good.
      if (!(await exists(template))) throw error;
    });
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

/**
 * Replaces the identifier in pg_control, where it is the first field and covered by a checksum, and
 * in the header of each log segment, which has no checksum.
 */
async function renewSystemIdentifier(dataDir: string): Promise<void> {
  const fresh = randomBytes(8);
  // Positive as a bigint, which is how `pg_control_system()` shows it.
  fresh.writeUInt8(fresh.readUInt8(7) & 0x7f, 7);
  await patch(path.join(dataDir, "global", "pg_control"), (control) => {
    const at = checksumOffset(control);
    fresh.copy(control, 0);
    control.writeUInt32LE(crc32c(control.subarray(0, at)), at);
  });
  const log = path.join(dataDir, "pg_wal");
  for (const name of await readdir(log))
    if (/^[0-9A-F]{24}$/.test(name))
      await patch(path.join(log, name), (header) => fresh.copy(header, LOG_IDENTIFIER_AT));
}

/** `xlp_sysid` of XLogLongPageHeaderData. */
const LOG_IDENTIFIER_AT = 24;
/**
 * Enough for the fields of pg_control, which is zero after them, and for the header of a log
 * segment.
 */
const PATCHED_BYTES = 512;

async function patch(file: string, change: (head: Buffer) => void): Promise<void> {
  const handle = await open(file, "r+");
  try {
    const head = Buffer.alloc(PATCHED_BYTES);
    await handle.read(head, 0, head.length, 0);
    change(head);
    await handle.write(head, 0, head.length, 0);
  } finally {
    await handle.close();
  }
}

/**
 * The checksum is the last field of a structure whose size depends on the version. It is found
 * where it matches everything before it.
 */
function checksumOffset(control: Buffer): number {
  for (let at = 8; at <= control.length - 4; at += 4)
    if (control.readUInt32LE(at) === crc32c(control.subarray(0, at))) return at;
  throw new DevClusterError("START_FAILED", "pg_control of the template has no checksum that fits");
}

const POLYNOMIAL = 0x82f63b78;

function crc32c(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

async function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  );
}
