// Goal: the edge speaks TLS with the certificate of its files, both versions of HTTP, nothing older than TLS 1.2, and takes a
// renewed certificate without a restart. It speaks TLS to services that the deployment's authority has signed, and to no others.
import assert from "node:assert/strict";
import { rename, writeFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { get } from "node:https";
import { join } from "node:path";
import { describe, test } from "node:test";
import { connect, type TLSSocket } from "node:tls";
import { eventually } from "@highwater/lab-tools/process";
import { makeAuthority, makeCertificate } from "@highwater/lab-tools/process/certificate";
import { ask, makeFolder, TestEdge, withoutEnvoy } from "./support/edge.ts";
import { Upstream } from "./support/upstream.ts";

/** Both files replaced by renames, as certificate managers do. */
async function install(folder: string, name: string): Promise<string> {
  const made = makeCertificate(name);
  for (const [file, text] of [
    ["tls.key", made.key],
    ["tls.crt", made.certificate],
  ] as const) {
    await writeFile(join(folder, `${file}.new`), text);
    await rename(join(folder, `${file}.new`), join(folder, file));
  }
  return made.certificate;
}

/** The name in the certificate that is shown. Whether it is to be trusted is another test's question. */
function shownName(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket: TLSSocket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
    socket.on("error", reject);
  });
}

describe("TLS", withoutEnvoy, () => {
  test("both versions of HTTP, old ones of TLS refused, a renewed certificate taken", async () => {
    await using gateway = await Upstream.start("g1");
    await using tracker = await Upstream.start("t1");
    const folder = await makeFolder();
    const authority = await install(folder, "localhost");
    await using edge = await TestEdge.start(
      {
        regions: [{ name: "here", gateways: [gateway.node], trackers: [tracker.node] }],
        tls: { certificate: join(folder, "tls.crt"), key: join(folder, "tls.key") },
      },
      folder,
    );
    const port = edge.envoy.port("public");

    const one = await new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
      const options = {
        port,
        host: "127.0.0.1",
        servername: "localhost",
        ca: authority,
        path: "/v1/transactions/x",
      };
      get(options, (answer) => {
        let text = "";
        answer.on("data", (piece: Buffer) => (text += piece.toString()));
        answer.on("end", () => {
          resolve({ status: answer.statusCode, text });
        });
      }).on("error", reject);
    });
    assert.deepEqual(one, { status: 200, text: '{"from":"g1"}' });

    const session = connectHttp2(`https://127.0.0.1:${String(port)}`, {
      ca: authority,
      servername: "localhost",
    });
    const two = await new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
      const request = session.request({ ":path": "/v1/durability/marks" });
      let status: number | undefined;
      let text = "";
      request.on("response", (headers) => (status = headers[":status"]));
      request.on("data", (piece: Buffer) => (text += piece.toString()));
      request.on("end", () => {
        resolve({ status, text });
      });
      request.on("error", reject);
      session.on("error", reject);
    });
    session.close();
    assert.deepEqual(two, { status: 200, text: '{"from":"t1"}' });

    await assert.rejects(
      new Promise((resolve, reject) => {
        const old = { port, host: "127.0.0.1", rejectUnauthorized: false, maxVersion: "TLSv1.1" } as const;
        connect({ ...old, minVersion: "TLSv1", ciphers: "DEFAULT@SECLEVEL=0" }, () => {
          resolve(undefined);
        }).on("error", reject);
      }),
      /alert|EPROTO|unsupported|protocol/i,
    );

    assert.equal(await shownName(port), "localhost");
    await install(folder, "renewed.example");
    await eventually("the renewed certificate is shown", async () => {
      return (await shownName(port)) === "renewed.example";
    });
  });

  test("services are spoken to over TLS, and only those with a certificate of the authority for their address", async () => {
    const folder = await makeFolder();
    const authority = makeAuthority("the deployment");
    await writeFile(join(folder, "authority.pem"), authority.certificate);
    const HERE = "127.0.0.1";
    await using good = await Upstream.start("good", authority.issue(HERE));
    await using impostor = await Upstream.start("impostor", makeAuthority("the deployment").issue(HERE));
    await using misnamed = await Upstream.start("misnamed", authority.issue("another.example"));
    await using plain = await Upstream.start("plain");
    await using tracker = await Upstream.start("t1", authority.issue(HERE));
    const wrong = [impostor, misnamed, plain];
    await using edge = await TestEdge.start(
      {
        regions: [
          {
            name: "here",
            gateways: [good, ...wrong].map(({ node }) => node),
            trackers: [tracker.node],
          },
        ],
        serviceAuthority: join(folder, "authority.pem"),
      },
      folder,
    );
    await eventually("the edge has found the one that it may ask", async () => {
      return (await edge.statistic("cluster.gateways.membership_healthy")) === 1;
    });
    for (let turn = 0; turn < 12; turn++) {
      const answered = await ask(`${edge.url}/v1/transactions/x`);
      assert.deepEqual([answered.status, answered.body.from], [200, "good"]);
    }
    assert.equal((await ask(`${edge.url}/v1/durability/marks`)).body.from, "t1");
    for (const { name } of wrong) {
      const pinned = await ask(`${edge.url}/v1/transactions/x/statements`, {
        method: "POST",
        headers: { "content-type": "application/json", "highwater-session": `${name}.1.x` },
        body: "{}",
      });
      assert.equal(pinned.status, 503);
    }
    assert.deepEqual(
      wrong.map(({ reached }) => reached.length),
      [0, 0, 0],
    );
  });
});
