// What processes are said to have spent: against the process's own count, and for many young ones together.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { platform } from "node:os";
import { test } from "node:test";
import { cpuOf, cpuOfServer, spentBetween } from "./cpu.ts";

const skip = platform() === "linux" ? false : "only Linux tells";

test("a process is read as it counts itself", { skip }, () => {
  const before = cpuOf(process.pid);
  const own = process.cpuUsage();
  let spentMs = 0;
  while (spentMs < 300) {
    const { user, system } = process.cpuUsage(own);
    spentMs = (user + system) / 1_000;
  }
  const measured = spentBetween(before, cpuOf(process.pid)) ?? Number.NaN;
  // Ticks of user and system time are cut off at both readings.
  assert.ok(Math.abs(measured - spentMs) <= 60, `${String(measured)} for ${String(spentMs)}`);
});

test(
  "a child's time counts to its server in less than ticks, and a stranger's does not",
  { skip },
  async () => {
    const child = spawn(process.execPath, ["-e", "setTimeout(() => {}, 60000)"]);
    try {
      await once(child, "spawn");
      const pid = child.pid ?? 0;
      const read = cpuOfServer(process.pid);
      assert.ok((read.get(pid) ?? 0) > 0);
      assert.ok(read.has(process.pid));
      assert.ok(!read.has(process.ppid));
    } finally {
      child.kill("SIGKILL");
    }
  },
);

test("a process that is new counts from its start, one that has gone counts nothing, and none is unknown", () => {
  const before = new Map([
    [1, 10],
    [2, 50],
  ]);
  const after = new Map([
    [1, 12.5],
    [3, 4],
  ]);
  assert.equal(spentBetween(before, after), 6.5);
  assert.equal(spentBetween(before, new Map()), null);
  assert.equal(cpuOf(undefined).size, 0);
});
