// What is prose in a page of Markdown or a file of code, and which of its sentences break a rule of
// rules.ts. Code is not prose: neither its spans and blocks nor words that look like code.
// A string counts only where it is surely a message, the name of a test or what an assertion says.
import ts from "typescript";
import { TEST_FUNCTION } from "../test-titles.ts";
import { COLUMNS, RULES, WORDS } from "./rules.ts";

interface Finding {
  readonly rule: string;
  readonly line: number;
  readonly text: string;
  readonly write: string;
}

/** Some Markdown that begins in a line of the file, and with comments the width of each line. */
interface Passage {
  readonly kind: "page" | "comment" | "message" | "title";
  readonly line: number;
  readonly text: string;
  readonly widths?: readonly number[];
}

/** One paragraph, list item, heading or row of a table. */
interface Block {
  readonly kind: "text" | "heading" | "row";
  readonly line: number;
  readonly lines: string[];
}

export function findingsIn(path: string, text: string): Finding[] {
  const passages = path.endsWith(".md") ? [{ kind: "page", line: 1, text } as const] : passagesOf(path, text);
  return passages.flatMap(check);
}

/** In tests, other strings are data, and comments may be as wide as code. */
export function findingsInTest(path: string, text: string): Finding[] {
  const passages = passagesOf(path, text).filter(({ kind }) => kind !== "message");
  return passages.flatMap(check).filter(({ rule }) => rule !== "wide");
}

function check(passage: Passage): Finding[] {
  const found: Finding[] = [];
  const wide = (line: number, columns: number): void => {
    if (columns <= COLUMNS) return;
    found.push({
      rule: "wide",
      line,
      text: `${String(columns)} columns`,
      write: `at most ${String(COLUMNS)}`,
    });
  };
  for (const [at, columns] of (passage.widths ?? []).entries()) wide(passage.line + at, columns);
  for (const { kind, line, lines } of blocksOf(passage)) {
    if (passage.kind === "page" && kind === "text")
      for (const [at, text] of lines.entries())
        wide(line + at, text.replaceAll(TARGET, "").replaceAll(TESTS, "").length);
    const prose = withoutCode(lines.map((one) => one.trim()).join("\n"));
    for (const { 0: raw, index } of prose.matchAll(SENTENCE)) {
      const sentence = raw.replaceAll("\n", " ");
      // A title is a phrase.
      for (const [rule, { find, write }] of Object.entries(passage.kind === "title" ? WORDS : RULES)) {
        // A heading or a cell may be a noun phrase, and so may the first sentence of a comment.
        const mayBeNoun = kind !== "text" || (index === 0 && passage.kind === "comment");
        if ((rule === "subject" && mayBeNoun) || (rule === "long" && kind === "row")) continue;
        const at = sentence.search(find);
        if (at >= 0) found.push({ rule, line: line + lineAt(prose, index + at) - 1, text: sentence, write });
      }
    }
  }
  return found;
}

const SENTENCE = /\S(?:.*?[.!?]["')*_]*(?=\s+["'*_]*[A-Z(])|.*)/gs;

function blocksOf({ kind: source, text, line: first }: Passage): Block[] {
  const blocks: Block[] = [];
  let fence = "";
  let open: Block | undefined;
  for (const [at, raw] of text.split("\n").entries()) {
    const mark = /^\s*(```+|~~~+)/.exec(raw)?.[1] ?? "";
    if (mark !== "") fence = fence === "" ? mark : mark.startsWith(fence) ? "" : fence;
    const isCode =
      fence !== "" || mark !== "" || (open === undefined && source !== "message" && /^ {4}/.test(raw));
    if (isCode || !/\w/.test(raw) || /^\s*(?:<!--.*|\|[\s:|-]*)$/.test(raw)) {
      open = undefined;
      continue;
    }
    const kind = /^#+ /.test(raw) ? "heading" : /^\s*\|/.test(raw) ? "row" : "text";
    if (
      open?.kind !== "text" ||
      kind !== "text" ||
      (source === "message" && raw.startsWith(" ")) ||
      /^\s*(?:[-*+]|\d+\.|>|@\w+) /.test(raw)
    )
      blocks.push((open = { kind, line: first + at, lines: [] }));
    open.lines.push(raw.replace(/^\s*(?:[-*+]|\d+\.|>+|#+) +|^@\w+ /, (lead) => " ".repeat(lead.length)));
  }
  return blocks;
}

const TARGET = /\]\([^)\s]*\)|\]\[[^\]]*\]/g;
const TESTS = /(?<=\.(?:tf)?test\.\w+`?: |\bTests: )[^|]*/g;

/**
 * Each piece of code, and what follows the path of a test or "Tests:", becomes an X: these are
 * names. Lines stay.
 */
function withoutCode(text: string): string {
  const code = /(`+)(?!`).*?\1|\{@\w+\s[^}]*\}|https?:\S+|<[^<>]*>|[\w$]*(?:\w[.:_/]\w|\w\()[^\s,;|]*[\w)]/gs;
  return text
    .replaceAll(TARGET, "]")
    .replaceAll(TESTS, (names) => `X${names.replaceAll(/[^\n]/g, "")}`)
    .replaceAll(code, (piece) => `X${piece.replaceAll(/[^\n]/g, "")}`);
}

/** Comments that speak to a tool have the form that the tool demands. */
const DIRECTIVE = /^\W*(?:checkov|oxlint|oxfmt|@ts-|noqa|type:|pragma|mypy|ruff|c8|<reference)/;

const LEAD = /^\s*(?:\/\*+|\*(?!\/)|\/\/+|#+!?|--+|"""|\'\'\') ?/;

function passagesOf(path: string, text: string): Passage[] {
  const { comments, messages, titles = [] } = scan(path, text);
  const groups: { line: number; column: number; lines: string[]; widths: number[] }[] = [];
  for (const [from, to] of comments) {
    const raw = text.slice(from, to).split("\n");
    if (DIRECTIVE.test(raw[0] ?? "")) continue;
    const column = from - text.lastIndexOf("\n", from - 1) - 1;
    const margin = new RegExp(`^ {0,${String(column)}}`);
    const line = lineAt(text, from);
    // What follows in a docstring is code, as wide as its formatter makes it.
    const example = raw.findIndex((one) => /^\s*Example:$/.test(one));
    const prose = raw.map((one, at) => (example >= 0 && at >= example ? "" : one));
    const lines = prose.map((one) =>
      one
        .replace(margin, "")
        .replace(LEAD, "")
        .replace(/(?:\*\/|"""|\'\'\')$/, ""),
    );
    const widths = prose.map((one, at) => (/https?:/.test(one) ? 0 : one.length + (at === 0 ? column : 0)));
    const last = groups.at(-1);
    // Comments that stand below one another are one text.
    if (last?.column === column && last.line + last.lines.length === line && raw.length === 1) {
      last.lines.push(...lines);
      last.widths.push(...widths);
    } else groups.push({ line, column, lines, widths });
  }
  return [
    ...groups.map(
      ({ line, lines, widths }) => ({ kind: "comment", line, text: lines.join("\n"), widths }) as const,
    ),
    ...messages.map(([at, said]) => ({ kind: "message", line: lineAt(text, at), text: said }) as const),
    ...titles.map(([at, said]) => ({ kind: "title", line: lineAt(text, at), text: said }) as const),
  ];
}

const lineAt = (text: string, offset: number): number => text.slice(0, offset).split("\n").length;

interface Scanned {
  readonly comments: readonly (readonly [from: number, to: number])[];
  readonly messages: readonly (readonly [at: number, said: string])[];
  /** The names of tests and the messages of assertions. */
  readonly titles?: readonly (readonly [at: number, said: string])[];
}

function scan(path: string, text: string): Scanned {
  if (path.endsWith(".py")) return scanPython(text);
  if (/\.tsx?$/.test(path)) return scanScript(path, text);
  const comment = path.endsWith(".sql") ? /(?<=^|\s)--[^\n]*/gm : /(?<=^|\s)#(?!#)[^\n]*/gm;
  // Of Terraform, where none has a quote, and of Make.
  const message = /(?<=\b(?:description|error_message) *= *"|(?<!#)## )[^"\n]*/g;
  return {
    comments: Array.from(text.matchAll(comment), ({ 0: all, index }) => [index, index + all.length]),
    messages: Array.from(text.matchAll(message), ({ 0: all, index }) => [index, all]),
  };
}

/**
 * Named so, a property or a variable is a message; so is what errors are made with, and what these
 * functions are called with.
 */
const NAMES =
  /^(?:title|detail|summary|description|help|question|message|hint|says|why|reason|cause|fix|usage|USAGE)$/;
const SPEAKERS = /(?:Error|Faults|OutOfStep|^about|^usage|^fail|^die|^super|\.warn|\.error|^console\.\w+)$/;

/** Where an assertion has its message, by its function; elsewhere it is the third argument. */
const MESSAGE_AT: Readonly<Record<string, number>> = { assert: 1, "assert.ok": 1, "assert.fail": 0 };

function scanScript(path: string, text: string): Scanned {
  const literals: [number, number][] = [];
  const messages: [number, string][] = [];
  const titles: [number, string][] = [];
  const visit = (node: ts.Node, isSaid: boolean): void => {
    const at = node.getStart(file);
    if (ts.isLiteralExpression(node) || ts.isTemplateMiddleOrTemplateTail(node) || ts.isTemplateHead(node))
      literals.push([at, node.end]);
    const said = textOf(node);
    if (isSaid && said !== undefined) messages.push([at, said]);
    if (ts.isCallExpression(node)) {
      const callee = node.expression.getText(file);
      const title = node.arguments[titleAt(callee)];
      const text = title === undefined ? undefined : textOf(title);
      if (title !== undefined && text !== undefined) titles.push([title.getStart(file), text]);
    }
    if (ts.isPropertyAssignment(node) || ts.isVariableDeclaration(node))
      isSaid = NAMES.test(node.name.getText(file));
    else if (ts.isNewExpression(node) || ts.isCallExpression(node))
      isSaid = SPEAKERS.test(node.expression.getText(file));
    else if (ts.isFunctionLike(node)) isSaid = false;
    ts.forEachChild(node, (child) => visit(child, isSaid));
  };
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext);
  visit(file, false);
  // With the literals blanked, what looks like a comment is one.
  let code = "";
  for (const [from, to] of literals)
    if (from >= code.length) code += text.slice(code.length, from) + " ".repeat(to - from);
  code += text.slice(code.length);
  const found = code.matchAll(/\/\/[^\n]*|\/\*.*?\*\//gs);
  return {
    comments: Array.from(found, ({ 0: all, index }) => [index, index + all.length]),
    messages,
    titles,
  };
}

/** Which argument is the name of a test or the message of an assertion; -1: none. */
function titleAt(callee: string): number {
  if (TEST_FUNCTION.test(callee)) return 0;
  return callee.startsWith("assert") ? (MESSAGE_AT[callee] ?? 2) : -1;
}

/** What a literal says, with an X for each value that is put into it. */
function textOf(node: ts.Node): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return undefined;
  return [node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join("X");
}

const PYTHON =
  /(?<comment>#[^\n]*)|(?<prefix>[a-zA-Z]{0,2})(?<quote>"""|\'\'\'|"|\')(?<said>(?:\\.|(?!\k<quote>)[^\\])*)\k<quote>/gs;

function scanPython(text: string): Scanned {
  const comments: [number, number][] = [];
  const messages: [number, string][] = [];
  for (const { 0: all, index, groups: { comment, quote, said = "" } = {} } of text.matchAll(PYTHON)) {
    const before = text.slice(Math.max(0, index - 80), index);
    if (comment !== undefined || (quote?.length === 3 && /(?:^|[^(,=\s]\s*\n)[ \t]*$/.test(before)))
      comments.push([index, index + all.length]);
    else if (/(?:\b(?:help|description|title|detail|message)=|\w*Error\()\s*\(?\s*$/.test(before))
      messages.push([index, said]);
  }
  const names = text.matchAll(/(?<=\bdef test_)\w+/g);
  const titles = Array.from(names, ({ 0: name, index }) => [index, name.replaceAll("_", " ")] as const);
  return { comments, messages, titles };
}
