// The process; see runProcess() for its signals and exit codes.
import { runProcess } from "@highwater/service";
import { buildApp } from "./app.ts";
import { describeConfig, loadConfig } from "./config.ts";
import { makeDeps } from "./runtime.ts";

await runProcess({
  ...{ service: "txn-gateway", env: process.env, loadConfig, describeConfig },
  make: (config, log, topologyFile) => {
    const app = buildApp(config, makeDeps(config, log, topologyFile));
    return { app, start: () => Promise.resolve(), close: () => app.close() };
  },
});
