// Finds processes that a program has left running, by a text that their command lines or
// environments contain.
import { readdirSync, readFileSync } from "node:fs";

/**
 * Process id and command line of each, except this process. Empty without /proc, which only Linux
 * has.
 */
export function processesWith(...texts: readonly string[]): string[] {
  let pids: string[];
  try {
    pids = readdirSync("/proc").filter((name) => /^[0-9]+$/.test(name) && Number(name) !== process.pid);
  } catch {
    return [];
  }
  return pids.flatMap((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      const listed = `${command}\0${readFileSync(`/proc/${pid}/environ`, "utf8")}`;
      return texts.some((text) => listed.includes(text)) ? [`${pid} ${command.slice(0, 120)}`] : [];
    } catch {
      return [];
    }
  });
}
