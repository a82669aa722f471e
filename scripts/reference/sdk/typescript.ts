// Reads the public entries of the TypeScript SDK with the compiler that checks it. Owns what is
// public: what an entry exports, and of that all members but those in private fields and those
// marked `@internal`.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import type { ClassEntry, ApiItem, FunctionEntry, Module, ParameterDoc } from "./model.ts";

const SDK = fileURLToPath(new URL("../../../sdk/ts/", import.meta.url));
const WIDTH = 100;

/** Entries by the name that users import, as its package.json has them. */
export function readTypescript(exports: Readonly<Record<string, string>>): Module[] {
  const files = Object.entries(exports).map(
    ([entry, file]) => [`@highwater/sdk${entry.slice(1)}`, join(SDK, file)] as const,
  );
  const config = ts.getParsedCommandLineOfConfigFile(
    join(SDK, "tsconfig.build.json"),
    { noEmit: true, types: ["node"] },
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: failed },
  );
  if (config === undefined) throw new Error("the SDK's tsconfig.build.json cannot be read");
  const program = ts.createProgram(
    files.map(([, file]) => file),
    config.options,
  );
  const reader = new Reader(program.getTypeChecker());
  return files.map(([name, file]) => {
    const source = program.getSourceFile(file);
    if (source === undefined) throw new Error(`${file} cannot be read`);
    return reader.module(name, source);
  });
}

function failed(diagnostic: ts.Diagnostic): never {
  throw new Error(ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n"));
}

type Callable = ts.SignatureDeclaration | ts.AccessorDeclaration;

class Reader {
  readonly #checker: ts.TypeChecker;
  /** What an earlier entry has exported: later ones do not repeat it. */
  readonly #rendered = new Set<ts.Symbol>();
  /** By the module that is read now. */
  #exported = new Set<ts.Symbol>();

  constructor(checker: ts.TypeChecker) {
    this.#checker = checker;
  }

  module(name: string, source: ts.SourceFile): Module {
    const symbol = this.#checker.getSymbolAtLocation(source);
    if (symbol === undefined) throw new Error(`${name} exports nothing`);
    const targets = this.#checker.getExportsOfModule(symbol).map((exported) => {
      const isAlias = (exported.flags & ts.SymbolFlags.Alias) !== 0;
      return [exported.name, isAlias ? this.#checker.getAliasedSymbol(exported) : exported] as const;
    });
    this.#exported = new Set(targets.map(([, target]) => target));
    const entries = targets.flatMap(([exportedName, target]) => {
      if (this.#rendered.has(target)) return [];
      this.#rendered.add(target);
      return [this.#entry(exportedName, target)];
    });
    return { name, ...moduleDoc(source), entries };
  }

  #entry(name: string, symbol: ts.Symbol): ApiItem {
    const declarations = symbol.declarations ?? [];
    const [first] = declarations;
    const isClass = declarations.some(ts.isClassDeclaration);
    if (isClass || declarations.some(ts.isInterfaceDeclaration)) return this.#class(name, symbol);
    if (first === undefined) throw new Error(`${name} is declared nowhere`);
    if (ts.isFunctionDeclaration(first)) return this.#function(name, declarations.filter(ts.isFunctionLike));
    if (ts.isTypeAliasDeclaration(first)) {
      const text = `type ${name}${typeParameters(first)} = ${typeText(first.type)}`;
      return { name, kind: "type", signature: wrapped(text), ...this.#doc(symbol) };
    }
    const type = this.#checker.getTypeOfSymbol(symbol);
    const [call] = type.getCallSignatures();
    if (call?.declaration === undefined) throw new Error(`${name}: not known here`);
    const methods = type.getProperties().flatMap((property) => {
      const [own] = this.#checker.getTypeOfSymbol(property).getCallSignatures();
      return own?.declaration ? [this.#function(`${name}.${property.name}`, [own.declaration])] : [];
    });
    return { ...this.#function(name, [call.declaration]), ...this.#doc(symbol), methods };
  }

  #class(name: string, symbol: ts.Symbol): ClassEntry {
    const declarations = symbol.declarations ?? [];
    const declaration =
      declarations.find(ts.isClassDeclaration) ?? declarations.find(ts.isInterfaceDeclaration);
    if (declaration === undefined) throw new Error(`${name} is no class`);
    const isInterface = ts.isInterfaceDeclaration(declaration);
    const bases = this.#basesOf(declaration).map((type) => type.getText().replaceAll(/\s+/g, " "));
    const members = this.#members(symbol, declaration);
    const methods = members.flatMap((member) => {
      const calls = (member.declarations ?? []).filter(
        (each) => ts.isMethodDeclaration(each) || ts.isMethodSignature(each),
      );
      return calls.length > 0 ? [this.#function(`${name}.${member.name}`, calls)] : [];
    });
    const fields = members.flatMap((member) => this.#field(member));
    const extended = bases.length > 0 ? ` extends ${bases.join(", ")}` : "";
    const kind = this.#isError(symbol)
      ? "error"
      : !isInterface
        ? "class"
        : /(Options|Config)$/.test(name)
          ? "options"
          : "data";
    const head = `${isInterface ? "interface" : "class"} ${name}${typeParameters(declaration)}${extended}`;
    const made = isInterface ? undefined : this.#constructorOf(declaration);
    const isMade = kind === "class" && made !== undefined && !isInternal(made);
    return {
      name,
      kind,
      bases,
      fields,
      methods,
      signature: isMade ? callText(`new ${name}`, made) : head,
      params: isMade ? this.#params([made]) : [],
      ...this.#doc(symbol),
    };
  }

  /**
   * What it extends, as far as users can see that: for what no entry exports, its members stand
   * where they are inherited.
   */
  #basesOf(
    declaration: ts.ClassDeclaration | ts.InterfaceDeclaration,
  ): readonly ts.ExpressionWithTypeArguments[] {
    return (declaration.heritageClauses ?? []).flatMap(({ token, types }) =>
      token === ts.SyntaxKind.ExtendsKeyword ? types.filter((type) => !this.#isHidden(type)) : [],
    );
  }

  #isHidden(type: ts.ExpressionWithTypeArguments): boolean {
    const base = this.#checker.getTypeAtLocation(type).symbol as ts.Symbol | undefined;
    const [declaration] = base?.declarations ?? [];
    if (base === undefined || declaration === undefined || this.#exported.has(base)) return false;
    if (!declaration.getSourceFile().fileName.startsWith(SDK)) return false;
    this.#rendered.add(base);
    return true;
  }

  /** Its own, or that of the class that it extends. */
  #constructorOf(declaration: ts.ClassDeclaration): ts.ConstructorDeclaration | undefined {
    const own = declaration.members.find(ts.isConstructorDeclaration);
    const [base] = (declaration.heritageClauses ?? []).flatMap(({ types }) => [...types]);
    if (own !== undefined || base === undefined || !this.#isHidden(base)) return own;
    const { symbol } = this.#checker.getTypeAtLocation(base);
    const inherited = symbol.declarations?.find(ts.isClassDeclaration);
    return inherited && this.#constructorOf(inherited);
  }

  /**
   * Its own ones, and before them those that come from a type of the package which is not exported.
   */
  #members(symbol: ts.Symbol, declaration: ts.ClassDeclaration | ts.InterfaceDeclaration): ts.Symbol[] {
    const inherited = new Set<string>();
    for (const base of this.#basesOf(declaration))
      for (const each of this.#checker.getTypeAtLocation(base).getProperties()) inherited.add(each.name);
    const isOwn = (member: ts.Symbol): boolean =>
      (member.declarations ?? []).some((each) => each.parent === declaration);
    return this.#checker
      .getDeclaredTypeOfSymbol(symbol)
      .getProperties()
      .toSorted((one, other) => Number(isOwn(one)) - Number(isOwn(other)))
      .filter((member) => {
        const [first] = member.declarations ?? [];
        if (first === undefined || !first.getSourceFile().fileName.startsWith(SDK)) return false;
        if (
          isInternal(first) ||
          isProtected(first) ||
          !/^[a-z]/i.test(member.name) ||
          member.name.startsWith("__")
        )
          return false;
        // The name that every error has says nothing that its class does not.
        return (
          (isOwn(member) || !inherited.has(member.name)) && !(this.#isError(symbol) && member.name === "name")
        );
      });
  }

  #isError(symbol: ts.Symbol): boolean {
    return this.#checker.getDeclaredTypeOfSymbol(symbol).getProperty("stack") !== undefined;
  }

  #field(member: ts.Symbol): ParameterDoc[] {
    const [declaration] = member.declarations ?? [];
    const doc = this.#doc(member).text;
    if (declaration === undefined) return [];
    if (ts.isPropertySignature(declaration) || ts.isPropertyDeclaration(declaration)) {
      const isOptional = declaration.questionToken !== undefined;
      const type = declaration.type
        ? typeText(declaration.type)
        : this.#checker.typeToString(this.#checker.getTypeOfSymbol(member));
      const shown = isOptional ? type.replace(/ \| undefined$/, "") : type;
      return [{ name: `${member.name}${isOptional ? "?" : ""}`, type: shown, default: null, doc }];
    }
    if (!ts.isGetAccessorDeclaration(declaration)) return [];
    return [{ name: member.name, type: returnText(declaration), default: null, doc }];
  }

  #function(name: string, declarations: readonly ts.Node[]): FunctionEntry {
    const all = declarations.filter((each): each is ts.SignatureDeclaration => ts.isFunctionLike(each));
    // Of overloads the one with the body is not for users.
    const shown = all.length > 1 ? all.filter((each) => !("body" in each && each.body !== undefined)) : all;
    const [first] = shown;
    if (first === undefined) throw new Error(`${name} is no function`);
    const called = name.split(".").at(-1) ?? name;
    const symbol = this.#commented(first);
    return {
      name,
      kind: "function",
      signature: shown.map((each) => callText(called, each)).join("\n"),
      params: this.#params(shown, symbol),
      ...(symbol ? this.#doc(symbol) : { text: "", examples: [] }),
    };
  }

  /** The symbol that has the comment: a method without one has that of the method it overrides. */
  #commented(declaration: ts.SignatureDeclaration): ts.Symbol | undefined {
    const { symbol } = declaration as { symbol?: ts.Symbol };
    const { parent } = declaration;
    const isSilent = symbol?.declarations?.every((each) => ts.getJSDocCommentsAndTags(each).length === 0);
    if (symbol === undefined || isSilent !== true || !ts.isClassDeclaration(parent)) return symbol;
    const bases = parent.heritageClauses?.flatMap(({ types }) => [...types]) ?? [];
    const overridden = bases.map((base) => this.#checker.getTypeAtLocation(base).getProperty(symbol.name));
    return overridden.find((each) => each !== undefined) ?? symbol;
  }

  /** Of all overloads, each name once: one comment is for all of them. */
  #params(declarations: readonly ts.SignatureDeclaration[], symbol?: ts.Symbol): ParameterDoc[] {
    const docs = new Map(
      [...(symbol?.declarations ?? []), ...declarations]
        .flatMap((declaration) => ts.getJSDocTags(declaration).filter(ts.isJSDocParameterTag))
        .map((tag) => [tag.name.getText(), ts.getTextOfJSDocComment(tag.comment) ?? ""]),
    );
    const documented = new Map<string, ParameterDoc>();
    for (const parameter of declarations.flatMap(({ parameters }) => [...parameters])) {
      // One that is taken apart where it is declared has no name: calls name it by what it is.
      const name = ts.isIdentifier(parameter.name) ? parameter.name.text : "options";
      if (documented.has(name)) continue;
      documented.set(name, {
        name: `${parameter.dotDotDotToken ? "..." : ""}${name}`,
        type: parameter.type ? typeText(parameter.type) : "",
        default: parameter.initializer ? parameter.initializer.getText().replaceAll(/\s+/g, " ") : null,
        doc: (docs.get(name) ?? "").replaceAll(/\s+/g, " "),
      });
    }
    return [...documented.values()];
  }

  #doc(symbol: ts.Symbol): { text: string; examples: string[] } {
    const text = ts.displayPartsToString(symbol.getDocumentationComment(this.#checker)).trim();
    const examples = symbol
      .getJsDocTags(this.#checker)
      .filter(({ name }) => name === "example")
      .map((tag) => codeOf(ts.displayPartsToString(tag.text)));
    return { text, examples };
  }
}

function codeOf(text: string): string {
  return text
    .trim()
    .replace(/^```ts\n/, "")
    .replace(/\n```$/, "");
}

/** For the compiler alone: there is no subclass outside of the package. */
function isProtected(node: ts.Declaration): boolean {
  return (ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Protected) !== 0;
}

function isInternal(node: ts.Node): boolean {
  return ts.getJSDocTags(node).some(({ tagName }) => tagName.text === "internal");
}

/** The comment with `@module` at the head of a file. */
function moduleDoc(source: ts.SourceFile): { text: string; examples: string[] } {
  const [, comment = ""] = /^\s*\/\*\*(.*?)\*\//s.exec(source.text) ?? [];
  const lines = comment.split("\n").map((line) => line.replace(/^\s*\* ?/, ""));
  const body = lines.join("\n");
  if (!body.includes("@module")) throw new Error(`${source.fileName} has no comment with @module`);
  const [text = "", ...rest] = body.split(/^@/m);
  const examples = rest.filter((tag) => tag.startsWith("example")).map((tag) => codeOf(tag.slice(7)));
  return { text: text.trim(), examples };
}

function typeParameters({
  typeParameters: list,
}: {
  readonly typeParameters?: ts.NodeArray<ts.Node> | undefined;
}): string {
  return list === undefined || list.length === 0
    ? ""
    : `<${list.map((each) => each.getText().replaceAll(/\s+/g, " ")).join(", ")}>`;
}

function typeText(type: ts.Node): string {
  const text = type
    .getText()
    .replaceAll(/\s*\/\*.*?\*\/\s*/gs, " ")
    .replaceAll(/\s+/g, " ");
  return text
    .replace(/^\| /, "")
    .replaceAll(/([(<[]) /g, "$1")
    .replaceAll(/,? ([)>\]])/g, "$1");
}

function returnText(declaration: Callable): string {
  if (declaration.type === undefined)
    throw new Error(`${declaration.getText()} does not say what it returns`);
  return typeText(declaration.type);
}

function parameterText(parameter: ts.ParameterDeclaration): string {
  const isOptional = parameter.questionToken !== undefined || parameter.initializer !== undefined;
  const own = ts.isIdentifier(parameter.name) ? parameter.name.text : "options";
  const name = `${parameter.dotDotDotToken ? "..." : ""}${own}`;
  return `${name}${isOptional ? "?" : ""}: ${parameter.type ? typeText(parameter.type) : "unknown"}`;
}

function callText(name: string, declaration: ts.SignatureDeclaration): string {
  const parts = declaration.parameters.map(parameterText);
  const returns = ts.isConstructorDeclaration(declaration) ? "" : `: ${returnText(declaration)}`;
  const head = `${name}${typeParameters(declaration)}`;
  const line = `${head}(${parts.join(", ")})${returns}`;
  // The list of parameters has the types, then.
  return line.length <= WIDTH
    ? line
    : `${head}(${parts.map((part) => part.replace(/: .*/, "")).join(", ")})${returns}`;
}

/** A union of many words has a line for each. */
function wrapped(text: string): string {
  if (text.length <= WIDTH || !text.includes(" | ")) return text;
  const [head = "", ...rest] = text.split(" = ");
  return `${head} =\n${rest
    .join(" = ")
    .split(" | ")
    .map((word) => `  | ${word}`)
    .join("\n")}`;
}
