// `make verify`: what takes hours and runs outside CI, at the commit that is checked out.
// Options: --only STAGE,… (also the beginning of names, as `soak`), --list (shows the stages and
// runs nothing), --page (writes the page again).
// Exit codes: 0 when each stage that was asked for has ended well, 1 when one has failed or the
// tree has changes, 130 for Ctrl-C.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exitCodeOf, readOptions } from "@highwater/lab-tools/process";
import { describeMachine } from "../../loadtests/record.ts";
import { findBinaries, namedBinDir } from "@highwater/lab-cluster";
import { pageOf, stateOf } from "./page.ts";
import { PAGE, readDone, readRecord, runStages, VERSIONS_PAGE } from "./run.ts";
import { chosen, STAGES } from "./stages.ts";
import { versionsPage } from "./versions-page.ts";

const ROOT = join(import.meta.dirname, "../..");

const { values } = readOptions(import.meta.filename, {
  options: {
    only: { type: "string", default: "" },
    list: { type: "boolean", default: false },
    page: { type: "boolean", default: false },
  },
});

/**
 * Without the options of `make verify` and without variables that are named as an option of the
 * Makefile: they would change the commands.
 */
function environment(): NodeJS.ProcessEnv {
  const makefile = readFileSync(join(ROOT, "Makefile"), "utf8");
  const options = new Set([...makefile.matchAll(/\$\(([A-Z][A-Z0-9_]*)\)/g)].map(([, name]) => name));
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !options.has(name) && !/^(?:MAKE|MFLAGS)/.test(name)),
  );
}

async function machine(): Promise<string> {
  const { processor, cores, memory_gib, kernel, node } = describeMachine();
  const { version } = await findBinaries({
    binDir: namedBinDir(),
    identity: undefined,
    copyTo: join(ROOT, ".tools/verify/postgres"),
  });
  return `${processor}, ${String(cores)} cores, ${String(memory_gib)} GiB, Linux ${kernel}, Node ${node.slice(1)}, PostgreSQL ${version}`;
}

async function main(): Promise<number> {
  const stages = chosen(STAGES, values.only);
  if (values.list) {
    for (const stage of stages)
      console.log(`${stage.name.padEnd(18)} ${stateOf(readDone(ROOT, stage))}\n    ${stage.command}`);
    return 0;
  }
  const stop = new AbortController();
  let code = 0;
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => {
      code = exitCodeOf(name);
      stop.abort();
    });
  if (!values.page) {
    const say = (line: string): void => {
      console.log(line);
    };
    const options = { machine: await machine(), signal: stop.signal, env: environment(), say };
    if (!(await runStages(ROOT, stages, options))) code ||= 1;
  }
  if (values.page || STAGES.some((stage) => readDone(ROOT, stage) !== null)) {
    writeFileSync(join(ROOT, PAGE), pageOf(ROOT, STAGES));
    const versions = join(ROOT, VERSIONS_PAGE);
    writeFileSync(versions, versionsPage(readFileSync(versions, "utf8"), readRecord(ROOT)));
    console.log(`written: ${PAGE}, ${VERSIONS_PAGE}`);
  }
  return code;
}

process.exitCode = await main().catch((cause: unknown) => {
  console.error(cause instanceof Error ? cause.message : cause);
  return 1;
});
