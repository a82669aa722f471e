// Loaded before everything else (--import): hands the product's source out with one of the deliberate bugs in it. Throws if
// what the bug is made of is not there, or is there twice.
import { registerHooks } from "node:module";
import { MUTANTS } from "./mutants.ts";

const wanted = process.env["MUTANT"] ?? "";
const patch = MUTANTS.find(({ name }) => name === wanted)?.patch;

if (patch !== undefined) {
  const { file, find, replace } = patch;
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
        throw new Error(`mutant "${wanted}": its text occurs ${String(parts.length - 1)} times in ${file}`);
      return { ...loaded, source: parts.join(replace) };
    },
  });
}
