// One running system for one program, taken down in every case: at the end, after an error, and on
// Ctrl-C.
import { exitCodeOf } from "@highwater/lab-tools/process";
import { System, type SystemOptions } from "@highwater/lab-system";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/**
 * Resolves with the program's exit code: `use` says whether all is well. Its signal means that it
 * is to fall silent.
 */
export async function withSystem(
  options: SystemOptions,
  use: (system: System, interrupted: AbortSignal) => Promise<boolean>,
): Promise<number> {
  // Until the system exists, and at the second Ctrl-C, the program just ends; its children notice
  // and end too.
  const die = (signal: NodeJS.Signals): void => process.exit(exitCodeOf(signal));
  for (const name of SIGNALS) process.on(name, die);
  const system = await System.start(options);
  const interruption = new AbortController();
  const interrupted = new Promise<{ readonly by: NodeJS.Signals }>((resolve) => {
    for (const name of SIGNALS) {
      process.off(name, die);
      process.once(name, () => {
        for (const each of SIGNALS) process.on(each, die);
        interruption.abort();
        resolve({ by: name });
      });
    }
  });
  try {
    const ended = await Promise.race([use(system, interruption.signal), interrupted]);
    if (typeof ended === "object") {
      console.error("\nInterrupted; stopping everything.");
      await system.close();
      // What the program was doing cannot go on without the system: do not let it complain.
      process.exit(exitCodeOf(ended.by));
    }
    return ended ? 0 : 1;
  } finally {
    await system.close();
  }
}
