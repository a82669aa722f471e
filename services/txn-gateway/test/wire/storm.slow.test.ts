// Goal: more clients than a gateway takes, all at once, leave it able to serve the next one.
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { eventually } from "@highwater/lab-system/testing";
import { WireSystem } from "./system.ts";

let wire: WireSystem;
before(async () => {
  wire = await WireSystem.start();
});
after(async () => {
  await wire[Symbol.asyncDispose]();
});

it("two thousand connections at once are served or refused, and then one more is served", async () => {
  const opened = await Promise.allSettled(Array.from({ length: 2_000 }, () => wire.open()));
  const refusals = new Set(
    opened.map((result) => {
      if (result.status === "fulfilled") {
        result.value.end();
        return "served";
      }
      return (result.reason as { readonly code?: string }).code;
    }),
  );
  assert.ok(refusals.has("served"));
  // Undefined: the gateway closed the socket before the client had read the reason.
  for (const code of refusals) assert.ok(["served", "53300", "57P03", undefined].includes(code), code);
  await eventually("one more", async () => {
    const client = await wire.open().catch(() => undefined);
    client?.end();
    return client !== undefined;
  });
});
