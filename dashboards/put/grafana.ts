// Puts the committed dashboards, byte for byte, into a Grafana that is running, with the data
// source that they ask: by its HTTP API, and as often as one likes. Owns the folder `highwater` and
// nothing else there.
import { readdirSync, readFileSync } from "node:fs";

/** Without what writes the dashboards, which the published command does not have. */
const ROOT = new URL("../", import.meta.url);
const DATA_SOURCE = "highwater";
const FOLDER = "highwater";
const REQUEST_LIMIT_MS = 30_000;
const ANSWER_CHARS = 500;
const NOT_FOUND = 404;
const CONFLICT = 409;
/** What older ones say of a folder that is there. */
const PRECONDITION_FAILED = 412;

export interface Destination {
  /** Of Grafana. */
  readonly url: string;
  /** Of a service account that is an administrator: data sources are theirs alone. */
  readonly token: string;
  readonly prometheus: {
    readonly url: string;
    /**
     * Requests are signed for the workspace of Amazon in this region, as the role that Grafana has;
     * null: not signed.
     */
    readonly awsRegion: string | null;
    readonly scrapeSeconds: number;
  };
}

/** The five files as they are. */
function readDashboards(): { readonly name: string; readonly text: string }[] {
  const folder = new URL("grafana/", ROOT);
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .sort()
    .map((name) => ({ name, text: readFileSync(new URL(name, folder), "utf8") }));
}

/** Errors: what Grafana answered, with the request. Dashboards that were put before stay. */
export async function putDashboards(
  destination: Destination,
  say: (line: string) => void = () => {},
): Promise<void> {
  await putDataSource(destination);
  say(`data source ${DATA_SOURCE}: ${destination.prometheus.url}`);
  await ask(destination, "POST", "/api/folders", JSON.stringify({ uid: FOLDER, title: "Highwater" }), [
    CONFLICT,
    PRECONDITION_FAILED,
  ]);
  for (const { name, text } of readDashboards()) {
    // Not parsed and written anew: what is there is what the repository has.
    await ask(
      destination,
      "POST",
      "/api/dashboards/db",
      `{"folderUid":${JSON.stringify(FOLDER)},"overwrite":true,"dashboard":${text}}`,
    );
    say(`dashboard ${name}`);
  }
}

async function putDataSource(destination: Destination): Promise<void> {
  const { url, awsRegion, scrapeSeconds } = destination.prometheus;
  const body = JSON.stringify({
    uid: DATA_SOURCE,
    name: "Highwater",
    type: "prometheus",
    access: "proxy",
    url,
    jsonData: {
      httpMethod: "POST",
      timeInterval: `${String(scrapeSeconds)}s`,
      // As the role of the workspace, not as somebody's keys.
      ...(awsRegion !== null && { sigV4Auth: true, sigV4AuthType: "ec2_iam_role", sigV4Region: awsRegion }),
    },
  });
  const path = `/api/datasources/uid/${DATA_SOURCE}`;
  const there = await ask(destination, "GET", path, null, [NOT_FOUND]);
  if (there === NOT_FOUND) await ask(destination, "POST", "/api/datasources", body);
  else await ask(destination, "PUT", path, body);
}

/** The status. */
async function ask(
  { url, token }: Destination,
  method: "GET" | "POST" | "PUT",
  path: string,
  body: string | null,
  alsoGood: readonly number[] = [],
): Promise<number> {
  const response = await fetch(url.replace(/\/$/, "") + path, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body !== null && { body }),
    // An address that leads elsewhere would get the token.
    redirect: "error",
    signal: AbortSignal.timeout(REQUEST_LIMIT_MS),
  });
  const text = await response.text();
  if (!response.ok && !alsoGood.includes(response.status))
    throw new Error(
      `Grafana: ${method} ${path}: ${String(response.status)} ${text.slice(0, ANSWER_CHARS)}${hintOf(response.status)}`,
    );
  return response.status;
}

function hintOf(status: number): string {
  if (status === 401) return " (is GRAFANA_TOKEN of this Grafana, and still valid?)";
  if (status === 403) return " (the service account has to be an administrator)";
  return "";
}
