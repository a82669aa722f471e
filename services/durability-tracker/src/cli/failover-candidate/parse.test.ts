import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { EXIT_CODES } from "../../failover/report.ts";
import { parseCandidateCommand, USAGE } from "./parse.ts";

function faultsOf(args: readonly string[]): readonly string[] {
  try {
    parseCandidateCommand(args);
  } catch (cause) {
    assert.ok(cause instanceof HighwaterError && cause.code === "invalid_request", String(cause));
    return cause.details.fields ?? [];
  }
  return assert.fail(`accepted: ${args.join(" ")}`);
}

test("nothing has to be said", () => {
  assert.deepEqual(parseCandidateCommand([]), {
    ...{ list: 0, waitMs: 5_000, json: false, trackers: [] },
    wishes: {
      ...{ region: null, zone: null, excluded: new Set(), ignored: new Set() },
      ...{ isSwitchover: false, isFenced: false, acceptsLoss: false },
    },
  });
});

test("everything that can be said", () => {
  const line =
    "--switchover --fenced --accept-loss --prefer-region west --prefer-zone a --exclude n1 --exclude n2 --ignore n3 " +
    "--list 20 --tracker http://t1:1/ --tracker https://t2 --wait 30 --json";
  assert.deepEqual(parseCandidateCommand(line.split(" ")), {
    ...{ list: 20, waitMs: 30_000, json: true, trackers: ["http://t1:1", "https://t2"] },
    wishes: {
      ...{ region: "west", zone: "a", excluded: new Set(["n1", "n2"]), ignored: new Set(["n3"]) },
      ...{ isSwitchover: true, isFenced: true, acceptsLoss: true },
    },
  });
  for (const help of ["--help", "-h"]) assert.equal(parseCandidateCommand([help]), null);
});

test("all faults are reported at once, without secrets that an address may contain", () => {
  const faults = faultsOf(["--list", "1001", "--wait", "soon", "--tracker", "ftp://user:secret@t"]);
  assert.equal(faults.length, 3);
  assert.ok(!faults.join().includes("secret"));
  for (const args of [["west"], ["--unknown"], ["--list"], ["--list=-1"], ["--wait", "1.5"]])
    assert.equal(faultsOf(args).length, 1, args.join(" "));
});

test("the usage names every exit code", () => {
  for (const code of [0, 1, 2, ...Object.values(EXIT_CODES)])
    assert.match(USAGE, new RegExp(`\n  ${String(code)}  `));
});
