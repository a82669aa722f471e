// Names of properties that the published file shortens, and what they must not be: a name that anything outside of the package
// could look at, as a part of its API, of the wire or of the platform, or that a text of the source spells.
import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

/** Of interfaces and classes that never leave the package. */
export const INTERNAL_NAMES: readonly string[] = (
  "accepts askAgainMs attemptMinMs attemptMs backoffBaseMs backoffMaxMs budget checkOpen " +
  "conflictBaseMs cooldownBaseMs cooldownMaxMs core deadlineMs decide delayMs deps elsewhere failed " +
  "gateways giveBack hasAwake heldMs isAsked isBackground isBegun isCommit isLoss isUncertain judge " +
  "known learnEpoch learnMarks leftMs logPosition loss monotonicMs nowMs onAnswer pendingSet pick " +
  "pieces pin pinnedAttempts pinnedPatience pollBaseMs pollForMs pollMaxMs pool probeMs recheck " +
  "recheckMs remaining remainingMs remember runOpen service settlement sinceMs streamIdleMs " +
  "streamOpenMs streamSilenceMs succeeded takeSettled takeToAsk timeoutMs toAsk totalMs trackers " +
  "tuning uncertain unwatch verdictBatch verdictRequestsMax verdictWaitMs waiters waits watch " +
  "watcher"
).split(" ");

/** What users of the package see: the files that its entry exports from. */
const PUBLIC =
  "client decode edge errors highwater interactive live observer options promise session sql transact transaction wire";

async function parse(path: string): Promise<ts.SourceFile> {
  return ts.createSourceFile(path, await readFile(path, "utf8"), ts.ScriptTarget.Latest, true);
}

function visit(node: ts.Node, see: (node: ts.Node) => void): void {
  see(node);
  ts.forEachChild(node, (child) => {
    visit(child, see);
  });
}

/** Adds what members of types and classes are called. */
function addMembers(file: ts.SourceFile, names: Set<string>): void {
  visit(file, (node) => {
    const isMember = ts.isTypeElement(node) || ts.isClassElement(node);
    if (isMember && node.name !== undefined && ts.isIdentifier(node.name)) names.add(node.name.text);
  });
}

/** Adds every text of the source that is one word: it could be a key, a code, a field that is looked for. */
function addWords(file: ts.SourceFile, names: Set<string>): void {
  visit(file, (node) => {
    const isText = ts.isStringLiteralLike(node) || ts.isTemplateLiteralToken(node);
    if (isText && /^\w+$/.test(node.text)) names.add(node.text);
  });
}

/** The names of `INTERNAL_NAMES` that must keep their spelling; `declarations` is the folder of the built package. */
export async function refusedNames(declarations: string): Promise<string[]> {
  const kept = new Set<string>();
  for (const name of PUBLIC.split(" ")) addMembers(await parse(join(declarations, `${name}.d.ts`)), kept);
  const sources = fileURLToPath(new URL("../src/", import.meta.url));
  for (const name of await readdir(sources))
    if (name.endsWith(".ts")) addWords(await parse(join(sources, name)), kept);
  const libraries = dirname(createRequire(import.meta.url).resolve("typescript"));
  const used = /^lib\.(es5|es20(15|1[6-9]|2[0-3]).*|dom|esnext\.disposable)\.d\.ts$/;
  for (const name of await readdir(libraries))
    if (used.test(basename(name))) addMembers(await parse(join(libraries, name)), kept);
  return INTERNAL_NAMES.filter((name) => kept.has(name));
}
