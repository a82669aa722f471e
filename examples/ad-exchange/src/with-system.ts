// One running system for one program, taken down in every case: at the end, after an error, and on Ctrl-C.
import { System, type SystemOptions } from "@highwater/dev-system";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const INTERRUPTED = 130;

/** Resolves with the program's exit code: `use` says whether all is well. Its signal means that it is to fall silent. */
export async function withSystem(
  options: SystemOptions,
  use: (system: System, interrupted: AbortSignal) => Promise<boolean>,
): Promise<number> {
  // Until the system exists, and at the second Ctrl-C, the program just ends; its children notice and end too.
  const die = (): void => process.exit(INTERRUPTED);
  for (const name of SIGNALS) process.on(name, die);
  const system = await System.start(options);
  const interruption = new AbortController();
  const interrupted = new Promise<"interrupted">((resolve) => {
    for (const name of SIGNALS) {
      process.off(name, die);
      process.once(name, () => {
        for (const each of SIGNALS) process.on(each, die);
        interruption.abort();
        resolve("interrupted");
      });
    }
  });
  try {
    const ended = await Promise.race([use(system, interruption.signal), interrupted]);
    if (ended === "interrupted") {
      console.error("\nInterrupted; stopping everything.");
      await system.close();
      // What the program was doing cannot go on without the system: do not let it complain.
      process.exit(INTERRUPTED);
    }
    return ended ? 0 : 1;
  } finally {
    await system.close();
  }
}
