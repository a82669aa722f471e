// `make dashboards-put`. Exit codes: 0 all there; 1 Grafana refused or could not be reached; 2 the
// environment is wrong.
import { type Destination, putDashboards } from "./grafana.ts";

const USAGE = `Uploads the data source and the five dashboards to a running Grafana.
  GRAFANA_URL          URL of Grafana
  GRAFANA_TOKEN        token of a service account that is an administrator
  PROMETHEUS_URL       Prometheus's query URL, as Grafana reaches it
  PROMETHEUS_REGION    region of a workspace of Amazon Managed Service for Prometheus; omit for any other Prometheus
  PROMETHEUS_SCRAPE_S  seconds between scrapes (default 15)`;
const SCRAPE_SECONDS = "15";

function readEnvironment(env: NodeJS.ProcessEnv): Destination | readonly string[] {
  const faults: string[] = [];
  const read = (name: string): string => {
    const value = env[name] ?? "";
    if (value === "") faults.push(`${name} is missing`);
    return value;
  };
  const readUrl = (name: string): string => {
    const value = read(name);
    if (value !== "" && !/^https?:$/.test(URL.parse(value)?.protocol ?? ""))
      faults.push(`${name} must be an http(s) URL`);
    return value;
  };
  const destination = {
    url: readUrl("GRAFANA_URL"),
    token: read("GRAFANA_TOKEN"),
    prometheus: {
      url: readUrl("PROMETHEUS_URL"),
      awsRegion: (env["PROMETHEUS_REGION"] ?? "") === "" ? null : (env["PROMETHEUS_REGION"] ?? ""),
      scrapeSeconds: Number(env["PROMETHEUS_SCRAPE_S"] ?? SCRAPE_SECONDS),
    },
  };
  if (!(destination.prometheus.scrapeSeconds >= 1)) faults.push("PROMETHEUS_SCRAPE_S must be 1 or more");
  return faults.length > 0 ? faults : destination;
}

if (process.argv.slice(2).some((argument) => argument === "--help" || argument === "-h")) {
  console.log(USAGE);
  process.exit(0);
}
const destination = readEnvironment(process.env);
if ("url" in destination) {
  try {
    await putDashboards(destination, (line) => {
      console.log(line);
    });
  } catch (error) {
    console.error(error instanceof Error ? `${error.message} ${causeOf(error)}`.trim() : String(error));
    process.exitCode = 1;
  }
} else {
  console.error(`${destination.join("\n")}\n\n${USAGE}`);
  process.exitCode = 2;
}

function causeOf({ cause }: Error): string {
  return cause instanceof Error ? `(${cause.message})` : "";
}
