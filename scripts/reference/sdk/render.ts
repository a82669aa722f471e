// One page of Markdown from what a language's reader has found. Owns its order, its links and how a
// docstring becomes text; knows nothing of either language but the name of its code blocks.
import { type ApiItem, type ClassEntry, type FunctionEntry, type Module } from "./model.ts";

export interface PageOptions {
  readonly title: string;
  /** What the page says before its contents. */
  readonly intro: string;
  /** Of code blocks. */
  readonly language: "ts" | "python";
  /** By module: names in its texts that are those of another library. */
  readonly foreign: Readonly<Record<string, readonly string[]>>;
}

const GROUPS = ["class", "function", "options", "data", "type", "value", "error"] as const;
const TITLES: Readonly<Record<(typeof GROUPS)[number], string>> = {
  class: "Classes",
  function: "Functions",
  options: "Options",
  data: "Data",
  type: "Types",
  value: "Values",
  error: "Errors",
};
/** What a reader looks for first; the others follow by name. */
const FIRST = ["Highwater", "Transaction", "DurabilityPromise", "InteractiveTransaction", "Session"];
/** What docstrings call an object of a class. */
const OBJECTS: Readonly<Record<string, string>> = { hw: "Highwater", session: "Session" };

export function renderPage(modules: readonly Module[], options: PageOptions): string {
  return new Page(modules, options).render();
}

class Page {
  readonly #modules: readonly Module[];
  readonly #options: PageOptions;
  readonly #anchors = new Map<Module | ApiItem, string>();
  /**
   * What a name in a text stands for, by module; what only one of them has leads there from all.
   */
  readonly #targets = new Map<string, Map<string, Module | ApiItem>>();
  readonly #everywhere = new Map<string, Module | ApiItem>();
  /** The module that is being written. */
  #at = "";

  constructor(modules: readonly Module[], options: PageOptions) {
    this.#modules = modules.map((module) => ({ ...module, entries: ordered(module.entries) }));
    this.#options = options;
    const slug = makeSlugger();
    slug(options.title);
    slug("Contents");
    for (const module of this.#modules) {
      const targets = new Map<string, Module | ApiItem>();
      this.#targets.set(module.name, targets);
      const aim = (thing: Module | ApiItem, heading = thing.name): void => {
        this.#anchors.set(thing, slug(heading));
        targets.set(thing.name, thing);
        // The main entry comes first.
        if (!this.#everywhere.has(thing.name)) this.#everywhere.set(thing.name, thing);
      };
      aim(module);
      for (const entry of module.entries) {
        aim(entry);
        for (const method of methodsOf(entry)) {
          const twin = this.#sameTwin(method, entry);
          if (twin === undefined) aim(method, `${method.name}()`);
          else targets.set(method.name, twin);
        }
      }
    }
  }

  /** What the name means where it stands. */
  #target(name: string): Module | ApiItem | undefined {
    const own = this.#targets.get(this.#at)?.get(name);
    const isForeign = this.#options.foreign[this.#at]?.includes(name) === true;
    const found = own ?? (isForeign ? undefined : this.#everywhere.get(name));
    const [owner = "", member] = name.split(".");
    if (found !== undefined || member === undefined) return found;
    // Members that a class has from another one are described there.
    const base = this.#everywhere.get(owner);
    const [above] = base !== undefined && "bases" in base ? base.bases : [];
    return above === undefined || above === owner ? undefined : this.#target(`${above}.${member}`);
  }

  #anchor(name: string): string | undefined {
    const target = this.#target(name);
    return target && this.#anchors.get(target);
  }

  render(): string {
    const parts = [
      `# ${this.#options.title}`,
      this.#options.intro,
      "Made from the source by `make gen`: correct the source, not this page.",
      "## Contents",
      ...this.#modules.map((module) => this.#contents(module)),
      ...this.#modules.flatMap((module) => this.#module(module)),
    ];
    return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
  }

  #contents(module: Module): string {
    const groups = GROUPS.flatMap((kind) => {
      const links = module.entries
        .filter((entry) => entry.kind === kind)
        .map((entry) => `[\`${entry.name}\`](#${this.#anchors.get(entry) ?? ""})`);
      return links.length > 0 ? [`  - ${TITLES[kind]}: ${links.join(", ")}`] : [];
    });
    return [`- [\`${module.name}\`](#${this.#anchors.get(module) ?? ""})`, ...groups].join("\n");
  }

  #module(module: Module): string[] {
    this.#at = module.name;
    return [
      `## \`${module.name}\``,
      this.#text(module.text),
      ...this.#examples(module.examples),
      ...module.entries.flatMap((entry) => this.#entry(entry)),
    ];
  }

  #entry(entry: ApiItem): string[] {
    const head = [`### \`${entry.name}\``, this.#signature(entry)];
    if (!("params" in entry)) return [...head, this.#text(entry.text), ...this.#examples(entry.examples)];
    if (!("bases" in entry))
      return [...head, ...this.#called(entry), ...methodsOf(entry).flatMap((each) => this.#method(each))];
    const bases = entry.bases.map((base) => this.#linked(base)).filter((base) => base.startsWith("["));
    const twin = this.#twin(entry.name, entry);
    const isAsTwin = twin !== undefined && entry.text !== "" && isSame(entry, twin);
    const own = entry.methods.filter((method) => this.#sameTwin(method, entry) === undefined);
    return [
      ...head,
      ...(isAsTwin ? [`Same as ${this.#linked(twin.name)}.`] : this.#called(entry)),
      bases.length > 0 ? `Has all of ${bases.join(" and ")} as well.` : "",
      this.#fields(entry),
      this.#sameMethods(entry),
      ...own.flatMap((method) => this.#method(method)),
    ];
  }

  #method(method: FunctionEntry): string[] {
    return [`#### \`${method.name}()\``, this.#signature(method), ...this.#called(method)];
  }

  /** Links to the methods of the sync class that describe those of an async one, too. */
  #sameMethods(entry: ClassEntry): string {
    const same = entry.methods.flatMap((method) => {
      const twin = this.#sameTwin(method, entry);
      return twin === undefined ? [] : [{ isCoroutine: method.signature.startsWith("async "), twin }];
    });
    const links = (isCoroutine: boolean): string =>
      same
        .filter((each) => each.isCoroutine === isCoroutine)
        .map(({ twin }) => this.#linked(twin.name))
        .join(", ");
    return [
      ...(links(false) === "" ? [] : [`Same methods: ${links(false)}.`]),
      ...(links(true) === "" ? [] : [`Same methods, but coroutines: ${links(true)}.`]),
    ].join(" ");
  }

  /** Of an async class: what the sync one has in its place. */
  #twin(name: string, of: ApiItem): FunctionEntry | ClassEntry | undefined {
    const twin = of.name.startsWith("Async") ? this.#target(name.slice("Async".length)) : undefined;
    return twin !== undefined && "params" in twin ? twin : undefined;
  }

  /** The sync twin of a method, if its text holds for both. */
  #sameTwin(method: FunctionEntry, of: ApiItem): FunctionEntry | undefined {
    const twin = this.#twin(method.name, of);
    return twin?.kind === "function" && isSame(method, twin) ? twin : undefined;
  }

  /** What it does, what it takes, what can go wrong, and an example. */
  #called(entry: FunctionEntry | ClassEntry): string[] {
    const [said, errors = ""] = entry.text.split(/\s+(?=Errors: )/);
    const examples = this.#examples(entry.examples);
    return [this.#text(said ?? ""), this.#params(entry), this.#text(errors), ...examples];
  }

  #params({ signature, params }: FunctionEntry | ClassEntry): string {
    return params
      .filter(({ type, doc }) => doc !== "" || this.#typeLink(type) !== undefined)
      .map(({ name, type, doc }) => {
        const link = this.#typeLink(type);
        if (doc === "" && link !== undefined) return `- \`${name}\`: ${link}. ${this.#summary(type)}`;
        const isTyped = signature.includes(`${name}: `) || signature.includes(`${name}?: `);
        return `- ${isTyped ? `\`${name}\`` : this.#typed(`${name}: ${type}`, type)}: ${this.#inline(doc)}`;
      })
      .join("\n");
  }

  /**
   * On one line as code in the text. A class that only extends others of this page needs none: its
   * text names them.
   */
  #signature({ signature, ...entry }: ApiItem): string {
    if (signature.includes("\n")) return this.#code(signature);
    const bases = "bases" in entry ? entry.bases : [];
    const isPlain = [`class ${entry.name}`, `interface ${entry.name}`].some((head) =>
      [head, `${head} extends ${bases.join(", ")}`, `${head}(${bases.join(", ")})`].includes(signature),
    );
    return isPlain && bases.every((base) => this.#target(base) !== undefined) ? "" : `\`${signature}\``;
  }

  #fields(entry: ClassEntry): string {
    const { name, fields } = entry;
    if (fields.length === 0) return "";
    const twin = this.#twin(name, entry);
    if (twin !== undefined && "fields" in twin && isEqual(fields, twin.fields))
      return `Fields: same as ${this.#linked(twin.name)}.`;
    const lines = fields.map(({ name: field, type, default: value, doc }) => {
      const shown = type === "" ? field : `${field}: ${type}`;
      return `- ${this.#typed(value === null ? shown : `${shown} = ${value}`, type)}: ${this.#inline(doc)}`;
    });
    return [...(entry.params.length > 0 ? ["Fields:", ""] : []), ...lines].join("\n");
  }

  /** The first sentence of what the page says of the type. */
  #summary(type: string): string {
    const [name = ""] = this.#names(type);
    const text = this.#inline(this.#target(name)?.text ?? "");
    return /^.*?[.:](?=\s|$)/.exec(text)?.[0].replace(/:$/, ".") ?? text;
  }

  #names(type: string): string[] {
    return [...new Set(type.match(/[A-Z]\w+/g))].filter((name) => this.#target(name) !== undefined);
  }

  /** A type leads to what this page says of it, where it names one thing of this page. */
  #typeLink(type: string, shown = type): string | undefined {
    const names = this.#names(type);
    return names.length === 1 ? `[\`${shown}\`](#${this.#anchor(names[0] ?? "") ?? ""})` : undefined;
  }

  /** Code, as a link to what its type is if this page says that. */
  #typed(code: string, type: string): string {
    return this.#typeLink(type, code) ?? `\`${code}\``;
  }

  #examples(examples: readonly string[]): string[] {
    return examples.map((code) => this.#code(code));
  }

  #code(code: string): string {
    return `\`\`\`${this.#options.language}\n${code.trimEnd()}\n\`\`\``;
  }

  /** Paragraphs; `Errors:` and its like begin one, and a tree is a block of its own. */
  #text(text: string): string {
    return text
      .replaceAll(/\s+(?=(?:Errors|Shape|Level): )/g, "\n\n")
      .split(/\n\n+(?!\s)/)
      .map((paragraph) => {
        if (paragraph.includes("├──")) return `\`\`\`text\n${paragraph.trimEnd()}\n\`\`\``;
        return this.#inline(paragraph).replace(/^(Errors|Shape|Level): /, "**$1:** ");
      })
      .join("\n\n");
  }

  #inline(text: string): string {
    const plain = text.replaceAll("``", "`").replaceAll(/\s+/g, " ").trim();
    return plain.replaceAll(/(?<!\[)`([^`]+)`/g, (_span, code: string) => this.#linked(code));
  }

  /**
   * A name in code, and a link where this page describes it. Common words are not taken for names.
   */
  #linked(code: string): string {
    const name = code
      .replace(/\(.*\)$/, "")
      .replace(/^(\w+)(?=\.)/, (object) => OBJECTS[object] ?? object)
      .replace(/^highwater\.(?=[A-Z])/, "");
    const isName = /^[A-Z]\w+(\.\w+)?$|^[@a-z]\w*(?:[./]\w+)+$/.test(name);
    const anchor = isName ? this.#anchor(name) : undefined;
    return anchor === undefined ? `\`${code}\`` : `[\`${code}\`](#${anchor})`;
  }
}

function methodsOf(entry: ApiItem): readonly FunctionEntry[] {
  return "methods" in entry ? (entry.methods ?? []) : [];
}

function ordered(entries: readonly ApiItem[]): ApiItem[] {
  const bases = new Map(entries.map((entry) => [entry.name, "bases" in entry ? entry.bases[0] : undefined]));
  /** Errors stand below what they are a kind of. */
  const path = (name: string | undefined): string =>
    name === undefined || !bases.has(name) ? "" : `${path(bases.get(name))}/${name.toLowerCase()}`;
  const rank = ({ name, kind }: ApiItem): string => {
    const plain = name.replace(/^Async/, "");
    const first = FIRST.indexOf(plain);
    const isAsync = plain === name ? 0 : 1;
    const place = first < 0 ? FIRST.length : first;
    return [GROUPS.indexOf(kind), isAsync, place, kind === "error" ? path(name) : name.toLowerCase()].join(
      " ",
    );
  };
  return entries.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1));
}

function isEqual(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Whether the sync twin's text holds for the async one, which needs no examples of its own. */
function isSame(own: FunctionEntry | ClassEntry, twin: FunctionEntry | ClassEntry): boolean {
  const docs = ({ params }: FunctionEntry | ClassEntry): unknown =>
    params.filter(({ doc }) => doc !== "").map(({ name, doc }) => [name, doc]);
  const sync = own.examples.map((code) =>
    code.replaceAll(/\(await (.*)\)(?=\.)|\b(?:await|async) |\bAsync(?=[A-Z])/g, "$1"),
  );
  const hasOther = sync.length > 0 && !isEqual(sync, twin.examples);
  return own.text === twin.text && !hasOther && isEqual(docs(own), docs(twin));
}

/** As git hosts make anchors of headings: a heading that was there before gets a number. */
function makeSlugger(): (heading: string) => string {
  const seen = new Map<string, number>();
  return (heading) => {
    const slug = heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, "")
      .replaceAll(" ", "-");
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${String(count)}`;
  };
}
