// All targets, in the order in which they run, each with its file: a thread loads no other.
import { type Target } from "../target.ts";

const FILES = [
  ...[
    "protocol",
    "configuration",
    "identity",
    "gateway",
    "tracker",
    "ledger",
    "contents",
    "lease",
    "sdk",
    "postgres-wire",
    "http",
    "pgwire",
  ],
];
/** Targets with known bugs, for tests of the loop. They run only by name. */
const PLANTED = "planted";

export interface Listed {
  readonly file: string;
  readonly target: Target;
}

async function targetsIn(file: string): Promise<Listed[]> {
  const found = (await import(`./${file}.ts`)) as { readonly targets: readonly Target[] };
  return found.targets.map((target) => ({ file, target }));
}

export async function allTargets(): Promise<readonly Listed[]> {
  return (await Promise.all(FILES.map(targetsIn))).flat();
}

/** Searches all files, or the given one. */
export async function targetOf(name: string, file?: string): Promise<Listed> {
  const all = (await Promise.all((file === undefined ? [...FILES, PLANTED] : [file]).map(targetsIn))).flat();
  const found = all.find(({ target }) => target.name === name);
  if (found !== undefined) return found;
  throw new Error(`there is no target ${name}; there are ${all.map(({ target }) => target.name).join(", ")}`);
}
