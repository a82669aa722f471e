import { readFileSync } from "node:fs";
import { parseArgs, type ParseArgsConfig } from "node:util";

const WRONG_OPTIONS = 2;

/**
 * Reads a command's options with `parseArgs`. `--help` prints the comment at the beginning of
 * `file` and exits with 0. Wrong options end the process with exit code 2 and one line that says
 * why.
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
