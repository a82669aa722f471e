import { readFileSync } from "node:fs";
import { parseArgs, type ParseArgsConfig } from "node:util";

const WRONG_OPTIONS = 2;

/**
 * The options of a command, as `parseArgs` reads them. `--help` prints the comment that `file`
 * begins with and ends the process with exit code 0. Options that cannot be read end it with 2,
 * behind one line that says why.
 */
export function readOptions<T extends ParseArgsConfig>(
  file: string,
  config: T,
): ReturnType<typeof parseArgs<T>> {
  if (process.argv.slice(2).some((argument) => argument === "--help" || argument === "-h")) {
    console.log(headerOf(file));
    process.exit(0);
  }
  try {
    return parseArgs(config);
  } catch (cause) {
    if (!(cause as NodeJS.ErrnoException).code?.startsWith("ERR_PARSE_ARGS")) throw cause;
    console.error(`${(cause as Error).message} (--help lists the options)`);
    process.exit(WRONG_OPTIONS);
  }
}

function headerOf(file: string): string {
  const lines = readFileSync(file, "utf8")
    .replace(/^#!.*\n/, "")
    .split("\n");
  const end = lines.findIndex((line) => !line.startsWith("//"));
  return lines
    .slice(0, end)
    .map((line) => line.replace(/^\/\/ ?/, ""))
    .join("\n");
}
