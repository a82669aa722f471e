// Versions of Node and Python on this machine, for tests of what is published.
import { spawnSync } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";

/** Where `make install-test` installs versions of Node. */
const INSTALLED = join(import.meta.dirname, "../../../../sdk/ts/smoke/node_modules");

/** The program of this name, of `make install-test` or on the path; null: there is none. */
export function programOf(name: string): string | null {
  const places = [join(INSTALLED, ".bin"), ...(process.env["PATH"] ?? "").split(delimiter)];
  return places.map((place) => join(place, name)).find((file) => existsSync(file)) ?? null;
}

/** A Node of this major version. */
export function nodeOf(major: number): string | null {
  const places = [process.execPath, "/usr/local/bin/node", "/usr/bin/node", programOf("node") ?? ""];
  const installed = join(INSTALLED, `node-${String(major)}`, "bin/node");
  return [installed, ...places].find((file) => says(file, `v${String(major)}.`)) ?? null;
}

/** A CPython 3 of this minor version: on the path, of pyenv or of uv. */
export function pythonOf(minor: number): string | null {
  const name = `3.${String(minor)}`;
  const managed = [".pyenv/versions", ".local/share/uv/python"].flatMap((folder) =>
    globSync(join(homedir(), folder, `*${name}*/bin/python${name}`)),
  );
  const found = [programOf(`python${name}`) ?? "", ...managed];
  return found.find((file) => says(file, `Python ${name}.`)) ?? null;
}

/** pyenv has a program for each version, and runs only those that are chosen. */
function says(file: string, version: string): boolean {
  return existsSync(file) && spawnSync(file, ["--version"], { encoding: "utf8" }).stdout.startsWith(version);
}
