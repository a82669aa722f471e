// Finishes what `make dist` packs, in .tools/dist: the address of the repository goes into the
// manifests and the links of each README, and a bill of materials (CycloneDX 1.6) is written beside
// the packages. The Python SDK is built from a copy, so that its manifest can be changed.
// Usage: node scripts/dist.ts FOLDER; REPOSITORY in the environment, empty: no address.
import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { billOf, npmComponents, packagesBelow, pypiComponents } from "@highwater/image/sbom";
import { ROOT } from "./tree.ts";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Address of a public repository, without a slash at its end. */
const REPOSITORY = /^https:\/\/[^\s"]+[^\s"/]$/;
/** What the Python SDK needs in the environment of the tests, and what that needs, by name. */
const INSTALLED = `
import json, tomllib
from importlib.metadata import distribution
from packaging.requirements import Requirement
found, todo = {}, tomllib.load(open("sdk/python/pyproject.toml", "rb"))["project"]["dependencies"]
while todo:
    need = Requirement(todo.pop())
    if need.name in found or (need.marker and not need.marker.evaluate({"extra": ""})): continue
    found[need.name] = distribution(need.name).version
    todo += distribution(need.name).requires or []
print(json.dumps(found))`;

const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

/** The README of a folder for readers who do not have the repository. */
export function withAddresses(text: string, at: string, { repository, version }: Release): string {
  const page = new URL(`${at}/README.md`, "https://repository/");
  return text.replaceAll(/\]\((\.{1,2}\/[^)]+)\)/g, (_, link: string) => {
    const { pathname, hash } = new URL(link, page);
    return `](${repository}/blob/v${version}${pathname}${hash})`;
  });
}

export interface Release {
  readonly repository: string;
  readonly version: string;
}

/** Fields of package.json. */
export function npmFields(repository: string, directory: string): object {
  return {
    repository: { type: "git", url: `git+${repository}.git`, directory },
    homepage: `${repository}#readme`,
    bugs: { url: `${repository}/issues` },
  };
}

function finishNpm(out: string, directory: string, repository: string): Manifest {
  const file = join(out, "package.json");
  const manifest = JSON.parse(readFileSync(file, "utf8")) as Manifest;
  if (repository === "") return manifest;
  writeFileSync(file, `${JSON.stringify({ ...manifest, ...npmFields(repository, directory) }, null, 2)}\n`);
  const text = withAddresses(read(`${directory}/README.md`), directory, { repository, ...manifest });
  writeFileSync(join(out, "README.md"), text);
  return manifest;
}

/** Returns its version. */
function copyPython(out: string, repository: string): string {
  const [from, source] = ["sdk/python", read("sdk/python/pyproject.toml")];
  const version = /^version = "(.+)"$/m.exec(source)?.[1] ?? "";
  mkdirSync(out, { recursive: true });
  cpSync(join(ROOT, from, "src"), join(out, "src"), {
    recursive: true,
    filter: (path) => !path.includes("__pycache__"),
  });
  copyFileSync(join(ROOT, "LICENSE"), join(out, "LICENSE"));
  const urls = `[project.urls]\nRepository = "${repository}"\nIssues = "${repository}/issues"\n\n`;
  const project = source.replace('"../../LICENSE"', '"LICENSE"');
  const isKnown = repository !== "";
  writeFileSync(
    join(out, "pyproject.toml"),
    isKnown ? project.replace("[project.optional-dependencies]", (found) => urls + found) : project,
  );
  const readme = read(`${from}/README.md`);
  writeFileSync(
    join(out, "README.md"),
    isKnown ? withAddresses(readme, from, { repository, version }) : readme,
  );
  return version;
}

if (import.meta.main) {
  const [folder = ""] = process.argv.slice(2);
  const { REPOSITORY: repository = "" } = process.env;
  if (repository !== "" && !REPOSITORY.test(repository))
    throw new Error(`REPOSITORY=${repository}: give an https address without a slash at its end`);
  const bills = join(folder, "bills");
  mkdirSync(bills, { recursive: true });
  const lock = read("package-lock.json");
  for (const [name, directory] of [["sdk", "sdk/ts"] as const, ["cli", "cli"] as const]) {
    const manifest = finishNpm(join(folder, name), directory, repository);
    const needed = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies });
    const below = packagesBelow(lock, needed);
    const bill = billOf(
      {
        type: "library",
        purl: `pkg:npm/${manifest.name.replace("@", "%40")}@${manifest.version}`,
        ...manifest,
      },
      npmComponents(lock, (path) => below.has(path)),
    );
    writeFileSync(join(bills, `highwater-${name}-${manifest.version}.cdx.json`), bill);
  }
  const version = copyPython(join(folder, "python"), repository);
  const python = join(ROOT, ".venv/bin/python");
  const installed = execFileSync(python, ["-c", INSTALLED], { cwd: ROOT, encoding: "utf8" });
  const bill = billOf(
    { type: "library", purl: `pkg:pypi/highwater-sdk@${version}`, name: "highwater-sdk", version },
    pypiComponents(JSON.parse(installed) as Record<string, string>),
  );
  writeFileSync(join(bills, `highwater_sdk-${version}.cdx.json`), bill);
}
