// Goal: a script that does not close its client still ends when nothing is pending. Method: a real process.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { service } from "./client-support.ts";

const SCRIPT = `
  import { Highwater, sql } from "${new URL("../src/index.ts", import.meta.url).href}";
  const hw = new Highwater({ url: process.argv[1] });
  const tx = await hw.transaction(sql\`SELECT 1\`);
  await tx.durable({ timeoutMs: 50 }).catch((error) => console.log(error.code));
  console.log((await tx.durable()).verdict);
`;

test("the process ends by itself after its last wait", async (context) => {
  const fake = await service(context);
  const child = spawn(process.execPath, ["--input-type=module", "-e", SCRIPT, "--", fake.url], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    if (output === "durability_timeout\n") fake.mark({ epoch: 1, levels: { region: 10 } });
  });
  // At its exit the rest of the output may be on its way.
  assert.deepEqual(await once(child, "close"), [0, null]);
  assert.equal(output, "durability_timeout\ndurable\n");
});
