// A deliberate bug in a program's source, put in while the program is loaded. Nothing on disk
// changes.
import { registerHooks } from "node:module";

export interface SourcePatch {
  /** The end of the file's path, with slashes. */
  readonly file: string;
  /** Occurs once in the file. */
  readonly find: string;
  readonly replace: string;
}

/**
 * Has to be called before the file is loaded. The loading throws when the text is not there, or is
 * there twice.
 */
export function patchSource(name: string, { file, find, replace }: SourcePatch): void {
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (!url.endsWith(`/${file}`)) return loaded;
      const source =
        typeof loaded.source === "string"
          ? loaded.source
          : Buffer.from(loaded.source as Uint8Array).toString();
      const parts = source.split(find);
      if (parts.length !== 2)
        throw new Error(`mutant "${name}": its text occurs ${String(parts.length - 1)} times in ${file}`);
      return { ...loaded, source: parts.join(replace) };
    },
  });
}
