// Finds the command in the arguments, and runs it.
import { fileURLToPath } from "node:url";
import MANIFEST from "../package.json" with { type: "json" };
import { type Call, type Command } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { Given } from "./given.ts";
import { badInput } from "./refusal.ts";
import { helpOf, helpOfAll } from "./help.ts";

/** What follows from the arguments. */
export type Task =
  | { readonly kind: "print"; readonly text: string }
  /** A command of this package. */
  | { readonly kind: "own"; readonly command: Command; readonly args: readonly string[] }
  /** Another program: its file, with its arguments, and with Node's own before it. */
  | { readonly kind: "program"; readonly arguments: readonly string[] };

const HELP = new Set(["--help", "-h"]);
const VERSION = new Set(["--version", "-V"]);

/** Errors: Refusal, if there is no such command. */
export function taskOf(args: readonly string[]): Task {
  const [first] = args;
  if (first === undefined || HELP.has(first) || first === "help") {
    const about = args.slice(1);
    return about.length > 0 ? taskOf([...about, "--help"]) : { kind: "print", text: helpOfAll() };
  }
  const command = COMMANDS.find(({ name }) => name.split(" ").every((word, at) => args[at] === word));
  const isVersion = args.some((arg) => VERSION.has(arg));
  if (VERSION.has(first) || (isVersion && command !== undefined))
    return { kind: "print", text: `highwater ${MANIFEST.version}` };
  if (command === undefined) return groupOf(args);
  const rest = args.slice(command.name.split(" ").length);
  const { run } = command;
  const wantsHelp = rest.some((arg) => HELP.has(arg));
  if (run.kind === "own")
    return wantsHelp ? { kind: "print", text: helpOf(command) } : { kind: "own", command, args: rest };
  if (run.options === null && wantsHelp) return { kind: "print", text: helpOf(command) };
  if (run.options === null && rest.length > 0) throw badInput(`unexpected argument: ${rest.join(" ")}`);
  const { flags = [], before = [], file } = run;
  return {
    kind: "program",
    arguments: [...flags, fileOf(file, command.name), ...before, ...rest],
  };
}

/** Errors: Refusal, if the program is not installed, as some are not in the container image. */
function fileOf(file: () => string, command: string): string {
  try {
    return fileURLToPath(file());
  } catch (cause) {
    if ((cause as { readonly code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw cause;
    throw badInput(`this installation has no highwater ${command}: install the npm package @highwater/cli`);
  }
}

/** The first words of several commands, such as `serve`. */
function groupOf([first = "", second]: readonly string[]): Task {
  const names = COMMANDS.map(({ name }) => name).filter((name) => name.startsWith(`${first} `));
  if (names.length === 0) throw badInput(`there is no command ${first} (highwater --help lists all)`);
  const list = `one of: ${names.map((name) => `highwater ${name}`).join(", ")}`;
  if (second !== undefined && HELP.has(second)) return { kind: "print", text: `Usage: ${list}` };
  throw badInput(`${first} is not a whole command: use ${list}`);
}

/** Resolves to the exit code. Errors: Refusal. */
export async function runOwn(
  { command, args }: Extract<Task, { kind: "own" }>,
  context: Omit<Call, "given" | "commands">,
): Promise<number> {
  const { run } = command;
  if (run.kind !== "own") throw new Error(`${command.name} is another program`);
  const given = Given.read(args, run.options);
  const { run: start } = await run.load();
  return start({ ...context, given, commands: COMMANDS });
}
