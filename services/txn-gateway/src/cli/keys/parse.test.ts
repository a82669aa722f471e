import assert from "node:assert/strict";
import { test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { fingerprintOf, hashSecret, makeKeyText } from "@highwater/service";
import { DEFAULT_LIMITS } from "@highwater/store";
import { parseKeysCommand } from "./parse.ts";

const parse = (line: string) => parseKeysCommand(line.split(" "));

function faultsOf(args: readonly string[]): readonly string[] {
  try {
    parseKeysCommand(args);
  } catch (cause) {
    assert.ok(cause instanceof HighwaterError && cause.code === "invalid_request", String(cause));
    return cause.details.fields ?? [];
  }
  return assert.fail(`accepted: ${args.join(" ")}`);
}

const NOTHING_SAID = { by: null, reason: null };

test("the least that a key needs, and what it gets by default", () => {
  assert.deepEqual(parse("create --name orders --role app_orders"), {
    kind: "create",
    name: "orders",
    role: "app_orders",
    fingerprint: null,
    owner: null,
    json: false,
    scopes: ["read", "write"],
    limits: DEFAULT_LIMITS,
    expires: null,
    createRole: false,
    password: { kind: "none" },
    ...NOTHING_SAID,
  });
});

test("everything that can be said of a key", () => {
  const command = parse(
    "create --name a --role r --owner team.a --scopes admin,read --expires 90d --rate 0.5 --burst 20 --concurrency 50 " +
      "--open-transactions 8 --idle-timeout 30s --total-timeout 5m --statement-timeout 500ms --lock-timeout 1h --min-level region " +
      "--keep-bytes 20000 --on-lost replay --create-role --password-file /secret --json",
  );
  assert.deepEqual(command, {
    kind: "create",
    name: "a",
    role: "r",
    fingerprint: null,
    owner: "team.a",
    json: true,
    scopes: ["read", "admin"],
    limits: {
      ratePerSecond: 0.5,
      burst: 20,
      concurrency: 50,
      openTransactions: 8,
      idleTimeoutMs: 30_000,
      totalTimeoutMs: 300_000,
      statementTimeoutMs: 500,
      lockTimeoutMs: 3_600_000,
      keepBytes: 20_000,
    },
    minLevel: "region",
    onLost: "replay",
    expires: { inMs: 90 * 86_400_000 },
    createRole: true,
    password: { kind: "file", path: "/secret" },
    ...NOTHING_SAID,
  });
});

test("who does it and why, and what is asked of the audit log", () => {
  const given = parseKeysCommand(["revoke", "k7m2abcd", "--by", "ada", "--reason", "lost its laptop"]);
  assert.deepEqual(given, {
    ...{ kind: "revoke", id: "k7m2abcd", json: false },
    ...{ by: "ada", reason: "lost its laptop" },
  });
  assert.deepEqual(parse("audit"), { kind: "audit", after: 0, since: null });
  assert.deepEqual(parse("audit --after 17 --since 7d"), {
    ...{ kind: "audit", after: 17, since: { inMs: 7 * 86_400_000 } },
  });
});

test("moments: a duration, or a time that means the same everywhere", () => {
  const expire = (...args: string[]) => parseKeysCommand(["expire", "k7m2abcd", ...args]);
  assert.deepEqual(expire("--in", "1h"), {
    kind: "expire",
    id: "k7m2abcd",
    when: { inMs: 3_600_000 },
    json: false,
    ...NOTHING_SAID,
  });
  const atMs = Date.UTC(2030, 0, 31, 12);
  for (const time of ["2030-01-31T12:00:00Z", "2030-01-31T12:00Z", "2030-01-31T14:00:00.000+02:00"])
    assert.deepEqual(expire("--at", time), {
      kind: "expire",
      id: "k7m2abcd",
      when: { atMs },
      json: false,
      ...NOTHING_SAID,
    });
  for (const [option, value] of [
    ["--at", "2030-01-31T12:00:00"],
    ["--at", "2030-13-01"],
    ["--at", "1h"],
    ["--at", "tomorrow"],
    ["--in", "1"],
    ["--in", "0s"],
    ["--in", "-1h"],
    ["--in", "1.5h"],
    ["--in", "999999999999d"],
    ["--in", "2030-01-31"],
  ] as const)
    assert.equal(faultsOf(["expire", "k7m2abcd", option, value]).length, 1, `${option} ${value}`);
  assert.match(faultsOf(["expire", "k7m2abcd"]).join(), /either --at TIME or --in DURATION/);
  assert.match(faultsOf(["expire", "k7m2abcd", "--at", "2030-01-31", "--in", "1h"]).join(), /either/);
});

test("the other commands", () => {
  assert.deepEqual(parse("generate --json"), { kind: "generate", json: true });
  assert.deepEqual(parse("list --json"), { kind: "list", json: true });
  assert.deepEqual(parse("revoke k7m2abcd"), {
    kind: "revoke",
    id: "k7m2abcd",
    json: false,
    ...NOTHING_SAID,
  });
  for (const args of [[], ["help"], ["create", "--help"], ["-h"]])
    assert.equal(parseKeysCommand(args).kind, "help");
});

test("a key that was made elsewhere: by its fingerprint, and never by itself", () => {
  const made = makeKeyText();
  const command = parse(`create --name a --role r --fingerprint ${fingerprintOf(made)}`);
  assert.ok(command.kind === "create");
  assert.deepEqual(command.fingerprint, { id: made.id, secretHash: hashSecret(made.secret) });
  for (const wrong of [
    made.text,
    made.id,
    `${made.id}:`,
    `${fingerprintOf(made)}0`,
    `a${fingerprintOf(made)}`,
  ])
    assert.match(
      faultsOf(["create", "--name", "a", "--role", "r", "--fingerprint", wrong]).join(),
      /--fingerprint must be an id and a SHA-256/,
    );
});

test("every fault is reported at once", () => {
  const faults = faultsOf([
    ...["create", "--scopes", "read,root", "--rate=-1", "--burst", "1.5", "--concurrency", "0"],
    ...["--owner", "jwt:x#y", "--expires", "soon", "--idle-timeout", "5", "--password-stdin", "extra"],
    ...["--on-lost", "retry"],
  ]);
  const expected = [
    /unexpected argument extra/,
    /--name is required/,
    /--role is required/,
    /--owner must be/,
    /--scopes must be some of read, write, webhooks, admin/,
    /--rate must be a number/,
    /--burst must be a whole number/,
    /--concurrency must be a whole number/,
    /--idle-timeout must be a duration/,
    /--expires must be a duration like 90d or a time/,
    /a password needs --create-role/,
    /--on-lost must be replay/,
  ];
  assert.equal(faults.length, expected.length, faults.join("\n"));
  for (const pattern of expected)
    assert.ok(
      faults.some((fault) => pattern.test(fault)),
      String(pattern),
    );
});

test("no time limit of a key is longer than the gateway or the server can keep", () => {
  const most = {
    "idle-timeout": "24h",
    "total-timeout": "1d",
    "statement-timeout": "24d",
    "lock-timeout": "24d",
  };
  const over = {
    "idle-timeout": "86401s",
    "total-timeout": "2d",
    "statement-timeout": "2147483648ms",
    "lock-timeout": "25d",
  };
  const create = ["create", "--name", "a", "--role", "r"];
  for (const [option, value] of Object.entries(most))
    assert.equal(parseKeysCommand([...create, `--${option}`, value]).kind, "create", option);
  for (const [option, value] of Object.entries(over))
    assert.match(
      faultsOf([...create, `--${option}`, value]).join(),
      new RegExp(`^--${option} must be at most`),
    );
});

test("what cannot be read at all", () => {
  for (const args of [
    ["destroy"],
    ["__proto__"],
    ["list", "--all"],
    ["list", "k7m2abcd"],
    ["revoke"],
    ["revoke", "a", "b"],
    ["revoke", "a", "--by", ""],
    ["revoke", "a", "--reason", "a\nb"],
    ["audit", "--after", "-1"],
    ["audit", "--after", "x"],
    ["audit", "--since", "yesterday"],
    ["audit", "a"],
    ["revoke", "hwk_k7m2abcd_secret"],
    ["create", "--name"],
    ["create", "--name", "a\nb", "--role", "r"],
    ["create", "--name", "a", "--role", "r".repeat(64)],
    ["create", "--name", "a", "--role", "r", "--create-role", "--password-stdin", "--password-file", "x"],
  ])
    assert.ok(faultsOf(args).length > 0);
});
