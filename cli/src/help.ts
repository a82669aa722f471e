// The help texts, from the table of commands.
import { wrapText } from "@highwater/runtime";
import { type Command, optionsOf } from "./command.ts";
import { GROUPS } from "./commands.ts";
import { type Option } from "./given.ts";

const WIDTH = 100;
const INDENT = "  ";

export function helpOfAll(): string {
  const width = longest(Object.values(GROUPS).flat(), ({ name }) => name);
  const groups = Object.entries(GROUPS).flatMap(([title, commands]) => [
    "",
    `${title}:`,
    ...commands.map(({ name, does }) => `${INDENT}${name.padEnd(width)}  ${does}`),
  ]);
  return [
    "Usage: highwater COMMAND [ARGUMENTS]",
    ...groups,
    "",
    "highwater COMMAND --help explains a command, --version prints the version.",
  ].join("\n");
}

export function helpOf(command: Command): string {
  const { name, does, args, notes = [], exits } = command;
  const options = optionsOf(command);
  const usage = ["Usage: highwater", name, args, options.length > 0 ? "[OPTIONS]" : undefined];
  const lines = [usage.filter((word) => word !== undefined).join(" "), "", capital(does) + "."];
  for (const note of notes) lines.push("", ...wrapText(note, WIDTH));
  lines.push("", "Options:", ...optionLines([...options, { name: "help", does: "show this help" }]));
  lines.push("", "Exit codes:");
  for (const [code, meaning] of Object.entries(exits)) lines.push(`${INDENT}${code}  ${meaning}`);
  return lines.join("\n");
}

/** As it is written on a command line. */
export function optionText({ name, value }: Option): string {
  return value === undefined ? `--${name}` : `--${name} ${value}`;
}

function optionLines(options: readonly Option[]): string[] {
  const width = longest(options, optionText);
  return options.map(
    (option) =>
      `${INDENT}${optionText(option).padEnd(width)}  ${option.does}${option.isMany === true ? " (repeatable)" : ""}`,
  );
}

function longest<T>(items: readonly T[], textOf: (item: T) => string): number {
  return Math.max(...items.map((item) => textOf(item).length));
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
