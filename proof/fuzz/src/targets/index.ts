// All targets, in the order in which they run, each with the file that has it: a thread loads no
// other.
import { type Target } from "../target.ts";

const FILES = [
  ...[
    "protocol",
    "configuration",
    "identity",
    "gateway",
    "tracker",
    "ledger",
    "lease",
    "sdk",
    "postgres-wire",
    "http",
    "pgwire",
  ],
];
/** With known bugs, for the tests of the loop: they run only by name. */
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

/** Of all files, or of the one that is known to have it. */
export async function targetOf(name: string, file?: string): Promise<Listed> {
  const all = (await Promise.all((file === undefined ? [...FILES, PLANTED] : [file]).map(targetsIn))).flat();
  const found = all.find(({ target }) => target.name === name);
  if (found !== undefined) return found;
  throw new Error(`there is no target ${name}; there are ${all.map(({ target }) => target.name).join(", ")}`);
}
