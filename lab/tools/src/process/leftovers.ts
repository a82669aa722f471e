// What a program has left running, found by a text that all it starts has in its command line or
// its environment.
import { readdirSync, readFileSync } from "node:fs";

/**
 * Process id and command line of each, this process excepted. None where there is no /proc: only
 * Linux has it.
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
