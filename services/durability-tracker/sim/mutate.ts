// Loads the simulation once more, with one of the deliberate bugs in the product's source. To start a process for each bug took
// four times longer: most of what a process loads are packages, and these have no bug.
import { readFileSync } from "node:fs";
import { registerHooks, stripTypeScriptTypes } from "node:module";
import { fileURLToPath } from "node:url";
import { applyPatch, type SourcePatch } from "@highwater/lab-tools/process";
import type * as Sim from "./run.ts";

/** Loaded once for all: packages that others have written, and those of ours that import nothing with a bug. */
const SHARED = /\/node_modules\/|\/packages\/(?:protocol|runtime)\//;
/** A service imports packages, and no package imports a service. */
const SHARED_BY_SERVICES = /\/node_modules\/|\/packages\//;
/** In the address of each module that a bug has an instance of. */
const QUERY = "?mutant=";

interface Bug {
  readonly name: string;
  readonly patch: SourcePatch;
  isMet: boolean;
}

const bugs: Bug[] = [];
/** Sources without types, by their addresses. */
const stripped = new Map<string, string>();

registerHooks({
  resolve(specifier, context, nextResolve) {
    const found = nextResolve(specifier, context);
    const [, number = ""] = context.parentURL?.split(QUERY) ?? [];
    const bug = bugs[Number(number)];
    if (number === "" || bug === undefined || found.url.includes(QUERY)) return found;
    const shared = bug.patch.file.startsWith("services/") ? SHARED_BY_SERVICES : SHARED;
    if (!found.url.startsWith("file:") || shared.test(found.url)) return found;
    return { ...found, url: `${found.url}${QUERY}${number}` };
  },
  load(url, context, nextLoad) {
    const [file = "", number = ""] = url.split(QUERY);
    const bug = bugs[Number(number)];
    if (number === "" || bug === undefined || !file.endsWith(".ts")) return nextLoad(url, context);
    return { format: "module", shortCircuit: true, source: sourceOf(file, bug) };
  },
});

function sourceOf(file: string, bug: Bug): string {
  if (file.endsWith(`/${bug.patch.file}`)) {
    bug.isMet = true;
    return stripTypeScriptTypes(applyPatch(bug.name, bug.patch, readFileSync(fileURLToPath(file), "utf8")));
  }
  const source = stripped.get(file) ?? stripTypeScriptTypes(readFileSync(fileURLToPath(file), "utf8"));
  stripped.set(file, source);
  return source;
}

/** The simulation of a product that has this bug. */
export async function loadWith(name: string, patch: SourcePatch): Promise<typeof Sim> {
  const bug: Bug = { name, patch, isMet: false };
  const number = bugs.push(bug) - 1;
  const loaded = (await import(`./run.ts${QUERY}${String(number)}`)) as typeof Sim;
  if (!bug.isMet) throw new Error(`mutant "${name}": the simulation loads no ${patch.file}`);
  return loaded;
}
