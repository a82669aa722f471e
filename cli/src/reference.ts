// The page docs/reference/cli.md, from the table of commands.
import { type Command, optionsOf } from "./command.ts";
import { GROUPS } from "./commands.ts";
import { capital, optionText } from "./help.ts";

/** From the first section of the page on. */
export function commandSections(): string[] {
  return Object.entries(GROUPS).flatMap(([title, commands]) => [
    "",
    `## ${title}`,
    ...commands.flatMap((command) => ["", ...sectionOf(command)]),
  ]);
}

function sectionOf(command: Command): string[] {
  const { name, does, args, notes = [], page, exits, run } = command;
  const options = optionsOf(command);
  const usage = ["highwater", name, args].filter((word) => word !== undefined).join(" ");
  const lines = [
    `### \`${usage}\``,
    "",
    `${capital(does)}${page === undefined ? "" : ` ([more](../${page}))`}.`,
  ];
  for (const note of notes) lines.push("", note);
  if (run.kind === "own" && options.length > 0) {
    lines.push("", "| option | |", "| --- | --- |");
    for (const option of options)
      lines.push(
        `| \`${optionText(option).replaceAll("|", "\\|")}\` | ${option.does}${option.isMany === true ? " (repeatable)" : ""} |`,
      );
  } else if (options.length > 0)
    lines.push(
      "",
      `Options, which \`--help\` explains: ${options.map(({ name: option }) => `\`--${option}\``).join(", ")}.`,
    );
  lines.push(
    "",
    `Exit codes: ${Object.entries(exits)
      .map(([code, meaning]) => `${code}: ${meaning}`)
      .join("; ")}.`,
  );
  return lines;
}
