// Goal: a gateway gives its credential only to a tracker whose certificate the deployment's authority has signed for that address;
// everything else fails with an error that says what to set. Method: real listeners of makeServer(), real sockets.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { eventually } from "@highwater/lab-tools/process";
import { makeAuthority } from "@highwater/lab-tools/process/certificate";
import { makeServer } from "@highwater/service";
import { MemoryLog } from "@highwater/service/testing";
import { HttpTransport } from "../../src/trackers/http-transport.ts";

const HOST = "127.0.0.1";
const LIMIT_MS = 60_000;
const AUTHORITY = makeAuthority("the deployment");
/** Of the same name: only its key differs. */
const IMPOSTOR = makeAuthority("the deployment");

class Listener {
  readonly log = new MemoryLog();
  readonly credentials: (string | undefined)[] = [];
  readonly #app;
  url = "";

  constructor(certificate: { readonly cert: string; readonly key: string } | null) {
    this.#app = makeServer({ bodyLimitBytes: 1_024, log: this.log, cutOnClose: true, certificate });
    this.#app.post("/asked", ({ headers }) => {
      this.credentials.push(headers.authorization);
      return { ok: true };
    });
    this.#app.get("/stream", ({ headers }) => {
      this.credentials.push(headers.authorization);
      return { ok: true };
    });
  }

  async open(): Promise<void> {
    this.url = await this.#app.listen({ host: HOST, port: 0 });
  }

  close(): Promise<void> {
    return this.#app.close();
  }
}

const shown = (authority: typeof AUTHORITY, name: string) => {
  const { certificate: cert, key } = authority.issue(name);
  return { cert, key };
};
const tracker = new Listener(shown(AUTHORITY, HOST));
const impostor = new Listener(shown(IMPOSTOR, HOST));
const misnamed = new Listener(shown(AUTHORITY, "another.example"));
const plain = new Listener(null);
const listeners = [tracker, impostor, misnamed, plain];

before(() => Promise.all(listeners.map((each) => each.open())));
after(() => Promise.all(listeners.map((each) => each.close())));

/** By a request and by a stream: each has a connection of its own. */
async function bothWays(
  url: string,
  tlsAuthority: string | null = AUTHORITY.certificate,
): Promise<unknown[]> {
  const transport = new HttpTransport({ internalSecret: "a secret of this test", tlsAuthority });
  try {
    const answers = await Promise.allSettled([
      transport.post(`${url}/asked`, "{}", LIMIT_MS),
      transport.open(`${url}/stream`, {}, AbortSignal.timeout(LIMIT_MS)),
    ]);
    return answers.map((answer) =>
      answer.status === "fulfilled" ? answer.value.status : (answer.reason as Error).message,
    );
  } finally {
    transport.close();
  }
}

async function refusedBothWays(url: string, why: RegExp, tlsAuthority?: string | null): Promise<void> {
  const answers = await bothWays(url, tlsAuthority);
  assert.equal(answers.length, 2);
  for (const answer of answers) assert.match(String(answer), why);
}

describe("a gateway's request to a tracker", () => {
  test("is answered over TLS where the deployment's authority has signed the tracker's certificate", async () => {
    tracker.credentials.length = 0;
    assert.deepEqual(await bothWays(tracker.url), [200, 200]);
    assert.equal(tracker.url.split(":")[0], "https");
    assert.equal(tracker.credentials.length, 2);
    for (const credential of tracker.credentials) assert.match(credential ?? "", /^Bearer hwi_/);
  });

  test("is not sent to a server with a foreign certificate, nor with one for another name", async () => {
    await refusedBothWays(impostor.url, /is not signed by a trusted authority.*HIGHWATER_TLS_CA/);
    await refusedBothWays(misnamed.url, /is for another name.*alternative names/);
    assert.deepEqual([...impostor.credentials, ...misnamed.credentials], []);
  });

  test("is not sent where the gateway does not know the deployment's authority", async () => {
    tracker.credentials.length = 0;
    await refusedBothWays(tracker.url, /is not signed by a trusted authority/, null);
    assert.deepEqual(tracker.credentials, []);
  });

  test("in plain HTTP to a TLS port fails with what to change, at both ends", async () => {
    tracker.credentials.length = 0;
    const url = tracker.url.replace("https:", "http:");
    await refusedBothWays(url, /ended the connection without an answer.*begins with https/);
    assert.deepEqual(tracker.credentials, []);
    // Each end notices for itself.
    await eventually("the tracker logs it", () => tracker.log.events.includes("tls_handshake_failed"));
  });

  test("over TLS to a plain port fails with what to change", async () => {
    await refusedBothWays(
      plain.url.replace("http:", "https:"),
      /does not speak TLS.*HIGHWATER_TLS_CERTIFICATE/,
    );
    assert.deepEqual(plain.credentials, []);
    assert.deepEqual(await bothWays(plain.url), [200, 200]);
  });
});
