// Completion for bash and zsh, from the table of commands. zsh runs the completion of bash.
import { type Call, type Command, optionsOf } from "./command.ts";
import { badInput } from "./refusal.ts";

export function run({ given, print, commands }: Call): Promise<number> {
  const shell = given.only("shell");
  if (shell !== "bash" && shell !== "zsh") throw badInput("the shell must be bash or zsh");
  print(completion(shell, commands));
  return Promise.resolve(0);
}

/** What may follow the words of a command, or the first words of several. */
function choices(commands: readonly Command[]): Map<string, Set<string>> {
  const after = new Map<string, Set<string>>();
  const add = (words: string, choice: string): void => {
    after.set(words, (after.get(words) ?? new Set()).add(choice));
  };
  for (const command of commands) {
    const words = command.name.split(" ");
    for (const [at, word] of words.entries()) add(words.slice(0, at).join(" "), word);
    for (const { name } of optionsOf(command)) add(command.name, `--${name}`);
    for (const name of ["--help", "--version"]) add(command.name, name);
    const { args = "" } = command;
    if (/^[a-z|]+$/.test(args)) for (const word of args.split("|")) add(command.name, word);
  }
  for (const name of ["--help", "--version"]) add("", name);
  return after;
}

export function completion(shell: "bash" | "zsh", commands: readonly Command[]): string {
  const cases = [...choices(commands)].map(
    ([words, all]) =>
      `    ${words === "" ? '""' : JSON.stringify(words)}) choices=${JSON.stringify([...all].join(" "))} ;;`,
  );
  return [
    `# Completion of highwater for ${shell}: source <(highwater completion ${shell})`,
    ...(shell === "zsh" ? ["autoload -U +X bashcompinit && bashcompinit"] : []),
    "_highwater() {",
    '  local word="${COMP_WORDS[COMP_CWORD]}" before="" each choices=""',
    // The words of the command, without its options and what follows them. zsh takes a name after
    // the colon for a modifier.
    '  for each in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do',
    '    case "$each" in -*) break ;; esac',
    '    case "${before:+$before }$each" in',
    ...commandWords(commands).map(
      (words) => `      ${JSON.stringify(words)}) before=${JSON.stringify(words)} ;;`,
    ),
    "    esac",
    "  done",
    '  case "$before" in',
    ...cases,
    "  esac",
    '  COMPREPLY=($(compgen -W "$choices" -- "$word"))',
    // Where no choice fits, names of files do.
    '  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))',
    "}",
    "complete -F _highwater highwater",
  ].join("\n");
}

/** Each command's name, and the beginnings of names of several words. */
function commandWords(commands: readonly Command[]): string[] {
  const all = commands.flatMap(({ name }) => {
    const words = name.split(" ");
    return words.map((_, at) => words.slice(0, at + 1).join(" "));
  });
  return [...new Set(all)];
}
