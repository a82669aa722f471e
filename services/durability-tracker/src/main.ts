// The process; see runProcess() for its signals and exit codes.
import { runProcess } from "@highwater/service";
import { buildTracker } from "./app.ts";
import { describeConfig, loadConfig } from "./config.ts";
import { makeDeps } from "./runtime.ts";

await runProcess({
  service: "durability-tracker",
  env: process.env,
  loadConfig,
  describeConfig,
  make: (config, { log, topologyFile, tracer }) =>
    buildTracker(
      config,
      makeDeps(config, log, {
        topologyFile,
        tracer,
        onFailure: (event, cause) => {
          log.error(event, { cause });
          process.exit(1);
        },
      }),
    ),
});
