// Goal: what is put into a Grafana is the committed files, byte for byte, with the data source that their queries need, as often as one
// likes. Method: a server that keeps what it gets and answers as Grafana's documentation says; no Grafana runs here.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo } from "node:net";
import { after, before, beforeEach, describe, it } from "node:test";
import { text } from "node:stream/consumers";
import { type Destination, putDashboards } from "../put/grafana.ts";
import { BOARDS, ROOT } from "../src/files.ts";

interface Got {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly authorization: string;
}

describe("dashboards are put into Grafana", () => {
  const got: Got[] = [];
  const sources = new Set<string>();
  let hasFolder = false;
  let refuse: number | null = null;
  const server = createServer((request, response) => {
    void answer(request, response);
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    const { method = "", url: path = "" } = request;
    got.push({ method, path, body, authorization: request.headers.authorization ?? "" });
    response.statusCode = statusOf(method, path, body);
    response.end(JSON.stringify({ message: "as told" }));
  }

  function statusOf(method: string, path: string, body: string): number {
    if (refuse !== null) return refuse;
    if (method === "GET") return sources.has(path.split("/").at(-1) ?? "") ? 200 : 404;
    if (path === "/api/datasources") sources.add((JSON.parse(body) as { uid: string }).uid);
    if (path !== "/api/folders") return 200;
    if (hasFolder) return 409;
    hasFolder = true;
    return 200;
  }

  let destination: Destination;
  before(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    destination = {
      url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/`,
      token: "glsa_0",
      prometheus: {
        url: "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-1",
        ...{ awsRegion: "us-east-1", scrapeSeconds: 15 },
      },
    };
  });
  beforeEach(() => {
    got.length = 0;
    refuse = null;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  it("first: data source, folder, every file as it is", async () => {
    await putDashboards(destination);
    assert.ok(got.every(({ authorization }) => authorization === "Bearer glsa_0"));
    const source = got.find(({ path }) => path === "/api/datasources");
    const { type, jsonData } = JSON.parse(source?.body ?? "null") as {
      type: string;
      jsonData: Record<string, unknown>;
    };
    // The type that the dashboards' variable `datasource` lists.
    for (const { name } of BOARDS) {
      const file = readFileSync(new URL(`grafana/highwater-${name}.json`, ROOT), "utf8");
      const variables = (JSON.parse(file) as { templating: { list: { type: string; query: unknown }[] } })
        .templating.list;
      assert.equal(variables.find((one) => one.type === "datasource")?.query, type);
      const put = got.filter((one) => one.path === "/api/dashboards/db" && one.body.includes(file));
      assert.equal(put.length, 1, name);
      assert.deepEqual(Object.keys(JSON.parse(put[0]?.body ?? "null") as object), [
        "folderUid",
        "overwrite",
        "dashboard",
      ]);
    }
    assert.equal(got.filter(({ path }) => path === "/api/dashboards/db").length, BOARDS.length);
    assert.deepEqual([jsonData["sigV4Auth"], jsonData["sigV4Region"]], [true, "us-east-1"]);
    assert.equal(jsonData["timeInterval"], "15s");
  });

  it("again: nothing is made twice", async () => {
    await putDashboards(destination);
    assert.ok(got.some(({ method, path }) => method === "PUT" && path === "/api/datasources/uid/highwater"));
    assert.ok(!got.some(({ path }) => path === "/api/datasources"));
    assert.equal(got.filter(({ path }) => path === "/api/dashboards/db").length, BOARDS.length);
  });

  it("a Prometheus of one's own is asked without a signature", async () => {
    await putDashboards({ ...destination, prometheus: { ...destination.prometheus, awsRegion: null } });
    const put = got.find(({ method }) => method === "PUT");
    assert.ok(put !== undefined && !put.body.includes("sigV4"));
  });

  it("a refusal says what to do, and ends it", async () => {
    refuse = 403;
    await assert.rejects(putDashboards(destination), /GET .*: 403 .*as told.*administrator/);
    assert.equal(got.length, 1);
  });
});
