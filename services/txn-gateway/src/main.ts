// The process; see runProcess() for its signals and exit codes.
import { runProcess } from "@highwater/service";
import { buildGateway } from "./app.ts";
import { describeConfig, loadConfig } from "./config.ts";
import { makeDeps } from "./runtime.ts";

await runProcess({
  service: "txn-gateway",
  env: process.env,
  loadConfig,
  describeConfig,
  make: (config, parts) => {
    const { app, metrics } = buildGateway(config, makeDeps(config, parts));
    return { app, metrics, start: () => Promise.resolve(), close: () => app.close() };
  },
});
