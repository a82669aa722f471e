// Puts a deliberate bug into a program's source while the program is loaded. Nothing on disk
// changes.
import { registerHooks } from "node:module";

export interface SourcePatch {
  /** The end of the file's path, with slashes. */
  readonly file: string;
  /** Occurs once in the file. */
  readonly find: string;
  readonly replace: string;
}

/** Throws unless the text occurs exactly once. */
export function applyPatch(name: string, { file, find, replace }: SourcePatch, source: string): string {
  const parts = source.split(find);
  if (parts.length !== 2)
    throw new Error(`mutant "${name}": its text occurs ${String(parts.length - 1)} times in ${file}`);
  return parts.join(replace);
}

/** Call it before the file is loaded. */
export function patchSource(name: string, patch: SourcePatch): void {
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (!url.endsWith(`/${patch.file}`)) return loaded;
      const source =
        typeof loaded.source === "string"
          ? loaded.source
          : Buffer.from(loaded.source as Uint8Array).toString();
      return { ...loaded, source: applyPatch(name, patch, source) };
    },
  });
}
