// A page of documentation as programs. All code of a page, from top to bottom, is one program in each language; what both of them
// print stands in its blocks of `text`, where "…" is for what differs each time. Comments that no reader sees say the rest:
//
//     <!-- setup: CREATE TABLE …; … -->   is run before, and its tables are each program's own
//     <!-- fault: NAME -->                the programs stop here until that has happened; see faults.ts
//     <!-- another process -->            what follows is a program of its own, which runs after the one before it, and in the
//                                         folder and on the tables of the other language's: one takes over what the other has left
import { type Endpoint } from "@highwater/lab-system";
import { BLOCK } from "@highwater/lab-tools/markdown";

export type Language = "ts" | "python";
export const LANGUAGES: readonly Language[] = ["ts", "python"];

export type Part =
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "fault"; readonly name: string };

/** One process for each language. */
interface Scene {
  readonly parts: Readonly<Record<Language, readonly Part[]>>;
  /** What it prints, in either language. */
  readonly prints: string;
}

export interface Page {
  readonly name: string;
  readonly languages: readonly Language[];
  readonly setup: string;
  readonly scenes: readonly Scene[];
}

const COMMENT = /^<!-- (?<word>setup|fault|another process)(?:: (?<value>.*?))? -->$/;
const PIECE = new RegExp(`${BLOCK.source}|${COMMENT.source}`, BLOCK.flags);

export function readPage(name: string, markdown: string): Page {
  const setup: string[] = [];
  const scenes = [{ parts: { ts: [] as Part[], python: [] as Part[] }, prints: "" }];
  for (const { groups = {} } of markdown.matchAll(PIECE)) {
    const { kind, text = "", word, value = "" } = groups;
    const scene = scenes.at(-1);
    if (scene === undefined) throw new Error("a page has a scene");
    if (kind === "ts" || kind === "python") scene.parts[kind].push({ kind: "code", text });
    else if (kind === "text") scene.prints += text;
    else if (word === "setup") setup.push(value);
    else if (word === "fault")
      for (const language of LANGUAGES) scene.parts[language].push({ kind: "fault", name: value });
    else if (word !== undefined) scenes.push({ parts: { ts: [], python: [] }, prints: "" });
    // Anything else would be code that no test runs.
    else if (kind !== "json") throw new Error(`${name}: a block of ${String(kind)}`);
  }
  return { name, languages: LANGUAGES, setup: setup.join("\n"), scenes };
}

/** Without what is only there for the test: what the checkers of types are given. */
export function printedCode(parts: readonly Part[]): string {
  return parts.flatMap((part) => (part.kind === "code" ? [part.text] : [])).join("\n");
}

/** The address of the service on the pages, and the real one in its place. */
export interface PageAddresses {
  readonly endpoints: readonly Endpoint[];
  /** For a program that receives webhooks. */
  readonly port: number;
  /** Where it says that it has come to a fault; answered when that has happened. */
  readonly stage: string;
}

export function runnableCode(language: Language, parts: readonly Part[], addresses: PageAddresses): string {
  const stop = (name: string): string => {
    const address = JSON.stringify(`${addresses.stage}/${name}`);
    return language === "ts"
      ? `await (await fetch(${address})).text();\n`
      : `__import__("urllib.request").request.urlopen(${address}).read()\n`;
  };
  const lines = parts.map((part) =>
    part.kind === "code" ? withAddresses(language, part.text, addresses) : stop(part.name),
  );
  return lines.join("\n");
}

/** Characters with a meaning in regular expressions. */
const SPECIAL = /[\\^$.*+?()[\]{}|/]/g;
const ONE = '"https://highwater.example"';
const SEVERAL = '["https://near.example", "https://far.example"]';

/** Gateways and trackers have addresses of their own here. A program that names one place gets the primary's region alone. */
function withAddresses(language: Language, code: string, { endpoints, port }: PageAddresses): string {
  const given = (count: number): string => {
    const list = endpoints.slice(0, count).map(({ gateway, tracker }) => ({ gateway, tracker }));
    if (language === "ts") return `endpoints: ${JSON.stringify(list)}`;
    return `endpoints=[__import__("highwater").Endpoint(**each) for each in ${JSON.stringify(list)}]`;
  };
  const before = language === "ts" ? "url: " : "";
  const replacements = new Map([
    [`${before}${ONE}`, given(1)],
    [`${before}${SEVERAL}`, given(endpoints.length)],
    ["http://127.0.0.1:4600", endpoints[0]?.gateway ?? ""],
    ["http://127.0.0.1:4601", endpoints[0]?.tracker ?? ""],
    ["https://tracker.highwater.example", endpoints[0]?.tracker ?? ""],
    ["https://shop.example", `http://127.0.0.1:${String(port)}`],
    ["8080", String(port)],
  ]);
  // All at once: a port that was put in can hold the digits of another one.
  const keys = [...replacements.keys()].map((key) => key.replaceAll(SPECIAL, "\\$&"));
  return code.replaceAll(new RegExp(keys.join("|"), "g"), (key) => replacements.get(key) ?? key);
}

/** The names that a page's setup gives to tables, and those that one program has in their place. */
export class OwnTables {
  readonly #owner: string;
  readonly #names: readonly string[];

  constructor(page: Page, language: Language) {
    this.#owner = `${page.name.replaceAll(/\W/g, "_")}_${language}`;
    this.#names = [...page.setup.matchAll(/CREATE TABLE (\w+)/g)].map(([, name = ""]) => name);
  }

  /** In a program or a statement. */
  apply(text: string): string {
    let own = text;
    for (const name of this.#names)
      own = own.replaceAll(new RegExp(`\\b${name}\\b`, "g"), `${name}_${this.#owner}`);
    return own;
  }

  /** In what a program has printed: the names that the page has. */
  undo(text: string): string {
    return text.replaceAll(`_${this.#owner}`, "");
  }
}

/** Whether a program has printed what its page says. */
export function isPrinted(expected: string, printed: string): boolean {
  const pattern = expected
    .split("…")
    .map((text) => text.replaceAll(SPECIAL, "\\$&"))
    .join("[^\\n]*");
  return new RegExp(`^${pattern}$`).test(printed);
}
