// Goal: nothing public of either SDK is without a docstring, and both have the same names and options.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ClassEntry, ApiItem, FunctionEntry, Module, ParameterDoc } from "./model.ts";
import { existsSync } from "node:fs";
import { pathOf } from "../pages.ts";
import { pythonModules, SDK_PAGES, typescriptModules } from "./pages.ts";

const LANGUAGES = [
  { name: "TypeScript", modules: typescriptModules, unit: /[a-z]Ms\??$/ },
  { name: "Python", modules: pythonModules, unit: /(?<!_ms)$/ },
] as const;

/** A function that is another one again says which, and its parameters are those. */
const AS_ANOTHER = /^(?:As|Like) `/;

function callables(entry: ApiItem): FunctionEntry[] {
  return [
    ...(entry.kind === "function" ? [entry] : []),
    ...("methods" in entry ? (entry.methods ?? []) : []),
  ];
}

function isClass(entry: ApiItem): entry is ClassEntry {
  return "fields" in entry;
}

/** Parameters and fields, each with the name of what has it. */
function parts(module: Module): { of: string; part: ParameterDoc; mayLead: boolean }[] {
  return module.entries.flatMap((entry) => [
    ...(isClass(entry) ? entry.fields.map((part) => ({ of: entry.name, part, mayLead: false })) : []),
    ...(isClass(entry) ? entry.params.map((part) => ({ of: entry.name, part, mayLead: true })) : []),
    ...callables(entry)
      .filter(({ text }) => !AS_ANOTHER.test(text))
      .flatMap(({ name, params }) => params.map((part) => ({ of: name, part, mayLead: true }))),
  ]);
}

for (const { name, modules, unit } of LANGUAGES) {
  test(`${name}: every public name says what it is`, () => {
    const silent = modules().flatMap((module) => [
      ...(module.text === "" ? [module.name] : []),
      ...module.entries.flatMap((entry) =>
        [entry, ...callables(entry)].filter(({ text }) => text === "").map((each) => each.name),
      ),
    ]);
    assert.deepEqual(silent, []);
  });

  test(`${name}: every parameter and every field is described`, () => {
    // A type of this page is explained there, and a parameter links to it.
    const options = new Set(
      modules().flatMap(({ entries }) =>
        entries.filter(({ kind }) => kind !== "data" && kind !== "error").map((entry) => entry.name),
      ),
    );
    const isLed = ({ type }: ParameterDoc): boolean =>
      (type.match(/[A-Z]\w+/g) ?? []).some((each) => options.has(each));
    const unpublished = modules()
      .flatMap(parts)
      .filter(({ part, mayLead }) => part.doc === "" && !(mayLead && isLed(part)))
      .map(({ of, part }) => `${of}: ${part.name}`);
    assert.deepEqual(unpublished, []);
  });

  test(`${name}: every time has one unit, which its name or its text says`, () => {
    const times = modules()
      .flatMap(parts)
      .filter(
        ({ part }) =>
          /[a-z](?:Ms|_ms)\b/.test(part.name) ||
          /(?<!on_?)timeout|^(?:max_?)?(?:wait|delay)|tolerance/i.test(part.name) ||
          /\bin (?:milli)?seconds(?! since)|^(?:milli)?seconds\b/i.test(part.doc),
      );
    const without = times
      .filter(({ part }) => !unit.test(part.name) || (name === "Python" && !/\bseconds\b/i.test(part.doc)))
      .map(({ of, part }) => `${of}: ${part.name}: ${part.doc}`);
    assert.deepEqual(without, []);
  });
}

for (const { name, render } of SDK_PAGES)
  test(`${name}: every link leads somewhere`, () => {
    const page = render();
    const anchors = new Set<string>();
    for (const [, heading = ""] of page.matchAll(/^#+ (.*)$/gm)) {
      const slug = heading
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, "")
        .replaceAll(" ", "-");
      let anchor = slug;
      // A git host numbers headings of the same text.
      for (let count = 1; anchors.has(anchor); count++) anchor = `${slug}-${String(count)}`;
      anchors.add(anchor);
    }
    const links = [...page.matchAll(/\]\(([^)]+)\)/g)].map(([, to = ""]) => to);
    assert.ok(links.length > 100);
    for (const to of links)
      assert.ok(to.startsWith("#") ? anchors.has(to.slice(1)) : existsSync(pathOf(to)), `${name}: ${to}`);
  });
