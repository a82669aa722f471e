// Goal: one gateway that has the session is enough, and gateways that fail do not matter. Method: a
// transport that answers by script.
import assert from "node:assert/strict";
import { it } from "node:test";
import { type HttpReply } from "../deps.ts";
import { askPeers } from "./peers.ts";

const KEY = Buffer.from("0000162e5b0d9c41", "hex");

/** By the URL's host: its answer, or none. */
function transportOf(answers: Readonly<Record<string, HttpReply | null>>) {
  const asked: string[] = [];
  return {
    asked,
    post: (url: string, body: string): Promise<HttpReply> => {
      asked.push(`${url} ${body}`);
      const answer = answers[new URL(url).hostname] ?? null;
      return answer === null ? Promise.reject(new Error("no answer")) : Promise.resolve(answer);
    },
  };
}

const saying = (body: string, status = 200): HttpReply => ({ status, body });

it("the gateway that has it decides, whatever the others say", async () => {
  const transport = transportOf({
    one: null,
    two: saying('{"found":false}'),
    three: saying('{"found":true}'),
  });
  assert.equal(await askPeers(transport, ["http://one", "http://two", "http://three"], KEY), true);
  assert.deepEqual(
    transport.asked,
    ["one", "two", "three"].map((name) => `http://${name}/internal/cancels {"key":"0000162e5b0d9c41"}`),
  );
});

it("refusals, other answers and silence are none", async () => {
  const transport = transportOf({
    one: null,
    two: saying('{"found":true}', 403),
    three: saying("found"),
    four: saying('{"found":1}'),
  });
  assert.equal(
    await askPeers(transport, ["http://one", "http://two", "http://three", "http://four"], KEY),
    false,
  );
  assert.equal(await askPeers(transport, [], KEY), false);
});
