// The two references: what they are made from, and what they say before their contents.
import { readFileSync } from "node:fs";
import { publishedEntries } from "@highwater/sdk/build";
import { type Module } from "./model.ts";
import { readPython } from "./python.ts";
import { type PageOptions, renderPage } from "./render.ts";
import { readTypescript } from "./typescript.ts";

const TYPESCRIPT: PageOptions = {
  title: "The SDK for TypeScript",
  intro:
    "Every public name of `@highwater/sdk`. The [README](../../sdk/ts/README.md) shows how they go together, and [errors.md](errors.md) " +
    "has the codes of the service. Times are milliseconds. An error's `code` is API, its message is not.",
  language: "ts",
  foreign: {},
};
const PYTHON: PageOptions = {
  title: "The SDK for Python",
  intro:
    "Every public name of `highwater`. The [README](../../sdk/python/README.md) shows how they fit together; [errors.md](errors.md) " +
    "lists the codes of the service. Times are in seconds, except where a name ends in `_ms`. An error's `code` is API; its message " +
    "is not. Names that begin with `Async` belong to `AsyncHighwater`. It has the same calls for asyncio, without `cancel`: cancel " +
    "the task instead.",
  language: "python",
  foreign: { "highwater.sqlalchemy": ["Session", "AsyncSession", "Connection", "AsyncConnection"] },
};

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** Reading takes seconds, and several pages and tests want the same. */
export const typescriptModules = once((): Module[] => {
  const manifest = new URL("../../../sdk/ts/package.json", import.meta.url);
  const { exports } = JSON.parse(readFileSync(manifest, "utf8")) as { exports: Record<string, string> };
  return readTypescript(publishedEntries(exports));
});
export const pythonModules = once(readPython);

export const SDK_PAGES = [
  { name: "sdk-typescript.md", render: () => renderPage(typescriptModules(), TYPESCRIPT) },
  { name: "sdk-python.md", render: () => renderPage(pythonModules(), PYTHON) },
];
