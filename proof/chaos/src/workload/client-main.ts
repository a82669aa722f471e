// A client process: carries out the run's commands and ends with the run.
import { Client } from "./client.ts";
import { type Command, type Report } from "./messages.ts";

const PROGRESS_EVERY_MS = 500;

let client: Client | undefined;

function report(message: Report): void {
  if (process.connected) process.send?.(message);
}

function fail(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  console.error(text);
  report({ kind: "failed", error: text });
}

async function obey(command: Command): Promise<void> {
  if (command.do === "start") {
    const started = new Client(command.options, fail);
    client = started;
    started.start();
    setInterval(() => {
      report({ kind: "progress", progress: started.progress });
    }, PROGRESS_EVERY_MS);
  } else if (client !== undefined) {
    await client[command.do]();
    report({ kind: "progress", progress: client.progress });
  }
  report({ kind: "done", what: command.do });
}

process.on("disconnect", () => {
  process.exit(0);
});
process.on("message", (command: Command) => {
  obey(command).catch(fail);
});
