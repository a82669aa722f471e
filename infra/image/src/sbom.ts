// Bills of materials (CycloneDX 1.6). As a program it writes the image's: the packages that npm has
// installed, Node, and the packages of the base if it is a Debian. The same files give the same
// bytes: there is no time and no random number in it. `npm sbom` writes both.
import { existsSync, readFileSync, writeFileSync } from "node:fs";

interface Component {
  readonly type: "library" | "platform";
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly licenses?: readonly { readonly expression: string }[];
  readonly hashes?: readonly { readonly alg: "SHA-512"; readonly content: string }[];
}

interface Installed {
  readonly version?: string;
  readonly link?: boolean;
  readonly license?: string;
  readonly integrity?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

/**
 * From npm's own list of what it has installed. `isThere`: whether the path is still there, as the
 * image's build removes packages again.
 */
export function npmComponents(lock: string, isThere: (path: string) => boolean): Component[] {
  const { packages } = JSON.parse(lock) as { readonly packages: Readonly<Record<string, Installed>> };
  return Object.entries(packages).flatMap(([path, { version, link, license, integrity }]) => {
    const at = path.lastIndexOf("node_modules/");
    if (at === -1 || link === true || version === undefined || !isThere(path)) return [];
    const name = path.slice(at + "node_modules/".length);
    const sha512 = integrity?.startsWith("sha512-") === true ? integrity.slice("sha512-".length) : undefined;
    return [
      {
        type: "library",
        name,
        version,
        purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
        ...(license !== undefined && { licenses: [{ expression: license }] }),
        ...(sha512 !== undefined && {
          hashes: [{ alg: "SHA-512" as const, content: Buffer.from(sha512, "base64").toString("hex") }],
        }),
      },
    ];
  });
}

/** The paths in the lock of these packages and of what they need, as Node finds it. */
export function packagesBelow(lock: string, names: readonly string[]): ReadonlySet<string> {
  const { packages } = JSON.parse(lock) as { readonly packages: Readonly<Record<string, Installed>> };
  const found = new Set<string>();
  const find = (from: string, name: string): string | undefined => {
    const path = `${from === "" ? "" : `${from}/`}node_modules/${name}`;
    if (path in packages) return path;
    return from === ""
      ? undefined
      : find(from.slice(0, Math.max(0, from.lastIndexOf("/node_modules/"))), name);
  };
  const add = (from: string, needed: readonly string[]): void => {
    for (const name of needed) {
      const path = find(from, name);
      if (path === undefined || found.has(path)) continue;
      found.add(path);
      const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta } =
        packages[path] ?? {};
      const peers = Object.keys({ ...peerDependencies });
      add(path, [
        ...Object.keys({ ...dependencies, ...optionalDependencies }),
        ...peers.filter((peer) => peerDependenciesMeta?.[peer]?.optional !== true),
      ]);
    }
  };
  add("", names);
  return found;
}

/** Versions by name. */
export function pypiComponents(versions: Readonly<Record<string, string>>): Component[] {
  return Object.entries(versions).map(([name, version]) => {
    return { type: "library", name, version, purl: `pkg:pypi/${name.toLowerCase()}@${version}` };
  });
}

/** From the list of dpkg. */
export function debianComponents(status: string): Component[] {
  return status.split("\n\n").flatMap((paragraph) => {
    const field = (name: string): string | undefined =>
      new RegExp(`^${name}: (.*)$`, "m").exec(paragraph)?.[1];
    const [name, version, architecture] = [field("Package"), field("Version"), field("Architecture")];
    if (name === undefined || version === undefined || !paragraph.includes("install ok installed")) return [];
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture ?? "all"}`;
    return [{ type: "library", name, version, purl }];
  });
}

/** What the bill is about. */
export interface Subject {
  readonly type: "container" | "library";
  readonly name: string;
  readonly version: string;
  readonly purl?: string;
}

export function billOf({ type, name, version, purl }: Subject, components: readonly Component[]): string {
  const unique = new Map(components.map((component) => [component.purl, component]));
  const sorted = [...unique.values()].sort((a, b) => (a.purl < b.purl ? -1 : 1));
  const bill = {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      component: {
        type,
        "bom-ref": purl ?? name,
        name,
        version,
        ...(purl !== undefined && { purl }),
        licenses: [{ expression: "Apache-2.0" }],
      },
    },
    components: sorted.map((component) => ({ ...component, "bom-ref": component.purl })),
  };
  return `${JSON.stringify(bill, null, 1)}\n`;
}

const DPKG = "/var/lib/dpkg/status";

if (import.meta.main) {
  const [path] = process.argv.slice(2);
  if (path === undefined) throw new Error("usage: sbom.ts FILE");
  const node = process.versions.node;
  const { version } = JSON.parse(readFileSync("cli/package.json", "utf8")) as { readonly version: string };
  const bill = billOf({ type: "container", name: "highwater", version }, [
    ...npmComponents(readFileSync("node_modules/.package-lock.json", "utf8"), existsSync),
    ...(existsSync(DPKG) ? debianComponents(readFileSync(DPKG, "utf8")) : []),
    { type: "platform", name: "node", version: node, purl: `pkg:generic/node@${node}` },
  ]);
  writeFileSync(path, bill);
}
