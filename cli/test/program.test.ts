// Goal: help, version, exit codes and completion of every command are those of the table, and the
// table has the options that other programs really have. Method: each program is asked for its help;
// the completion runs in a real bash, and at the prompt of a real zsh.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import MANIFEST from "../package.json" with { type: "json" };
import { optionsOf } from "../src/command.ts";
import { COMMANDS } from "../src/commands.ts";
import { Given } from "../src/given.ts";
import { completion } from "../src/completion.ts";
import { conninfoOf, streamNameOf } from "../src/postgres.ts";
import { highwater } from "./support.ts";

const MAIN = fileURLToPath(new URL("../src/main.ts", import.meta.url));

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** As a process of its own. */
function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [MAIN, ...args],
      { env: { PATH: process.env["PATH"], ...env } },
      (error, out, err) => {
        resolve({ code: error === null ? 0 : Number(error.code), out, err });
      },
    );
  });
}

test("every command has a help with its options and exit codes, and the version", async () => {
  const all = (await highwater(["--help"])).out;
  for (const command of COMMANDS) {
    assert.ok(all.includes(`  ${command.name} `), command.name);
    const words = command.name.split(" ");
    assert.equal((await highwater([...words, "--version"])).out, `highwater ${MANIFEST.version}`);
    if (command.run.kind === "program" && command.run.options !== null) continue;
    for (const asked of [
      [...words, "--help"],
      ["help", ...words],
    ]) {
      const { out } = await highwater(asked);
      assert.ok(out.startsWith(`Usage: highwater ${command.name}`), out);
      for (const { name } of optionsOf(command)) assert.ok(out.includes(`--${name}`), name);
      for (const meaning of Object.values(command.exits)) assert.ok(out.includes(meaning), meaning);
    }
  }
  assert.equal((await highwater([])).out, all);
  assert.equal((await highwater(["--version"])).out, `highwater ${MANIFEST.version}`);
});

test("the table has the options that each other program explains in its help", async () => {
  for (const command of COMMANDS) {
    const { run, name } = command;
    if (run.kind !== "program" || run.options === null) continue;
    const { code, out, err } = await start([...name.split(" "), "--help"]);
    assert.equal(code, 0, err);
    const said = new Set(Array.from(out.matchAll(/--([a-z]+(?:-[a-z]+)*)/g), ([, option]) => option));
    said.delete("help");
    const listed = new Set(optionsOf(command).map((option) => option.name));
    if (name === "audit") assert.ok([...listed].every((option) => said.has(option)));
    else assert.deepEqual([...listed].sort(), [...said].sort(), name);
  }
});

test("a program that takes over has its own exit code, streams and environment", async () => {
  const keys = await start(["keys", "create"]);
  assert.equal(keys.code, 2);
  assert.match(keys.err, /^keys: --name/m);
  const gateway = await start(["serve", "gateway"], { GATEWAY_NAME: "!" });
  assert.equal(gateway.code, 2);
  assert.match(gateway.err, /configuration_refused.*GATEWAY_NAME/s);
  const made = await start(["keys", "generate"]);
  assert.equal(made.code, 0);
  assert.match(made.out, /^hwk?_/);
  assert.equal((await start(["dashboards"])).code, 2);
  for (const args of [
    ["dev", "--ports", "1"],
    ["dev", "here"],
    ["edge", "nowhere.json"],
  ]) {
    const { code, err } = await start(args);
    assert.equal(code, 2, err);
    assert.match(err, new RegExp(`^highwater ${args[0] ?? ""}: .*--help`), err);
  }
});

test("what is no command says so, and a half one names the rest", async () => {
  for (const [args, says] of [
    [["brew"], /there is no command brew/],
    [["serve"], /one of: highwater serve gateway, highwater serve tracker/],
    [["serve", "gateway", "--port", "1"], /unexpected argument: --port 1/],
    [["completion", "fish"], /the shell must be bash or zsh/],
    [["topology", "check"], /name the topology file/],
    [["roles", "--role", "Robert'); --"], /cannot be a role's name/],
    [["watch", "here"], /unexpected argument: here/],
    [["watch"], /no address: set HIGHWATER_TRACKERS or HIGHWATER_URL/],
    [["status", "a", "b"], /only one id or token/],
    [["status", "a", "--wait", "61"], /--wait must be a whole number from 0 to 60/],
  ] as const) {
    const { code, err } = await highwater(args);
    assert.equal(code, 2, args.join(" "));
    assert.match(err, says);
  }
  const real = await start(["brew"]);
  assert.deepEqual([real.code, real.out], [2, ""]);
  assert.match(real.err, /^highwater: there is no command brew/);
});

test("completion offers commands, their second words, options, and words of arguments", () => {
  const complete = (line: string): string[] => {
    const words = line.split(" ");
    const script = `${completion("bash", COMMANDS)}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${String(words.length - 1)}; _highwater; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return execFileSync("bash", ["-c", script], { encoding: "utf8" }).split("\n").filter(Boolean);
  };
  assert.deepEqual(complete("highwater do"), ["doctor"]);
  assert.deepEqual(complete("highwater serve "), ["gateway", "tracker"]);
  assert.deepEqual(complete("highwater init postgresql://x --reg"), ["--region"]);
  assert.deepEqual(complete("highwater keys re"), ["revoke"]);
  assert.ok(complete("highwater keys create --create-").includes("--create-role"));
  assert.deepEqual(complete("highwater failover candidate --ac"), ["--accept-loss"]);
});

const zsh = spawnSync("zsh", ["--version"]).error === undefined;
test("zsh completes at its prompt", { skip: zsh ? false : "no zsh (Debian: zsh)" }, () => {
  const lines = ["highwater doct", "highwater serve tr", "highwater failover candidate --ac"];
  // The inner zsh prints what is on its line after the tabulator; Ctrl-A and Ctrl-E are its ends.
  const script = `zmodload zsh/zpty
zpty shell "TERM=dumb zsh -f -i"
zpty -w shell "autoload -Uz compinit; compinit -D -u; source <($1 $2 completion zsh); print READY-\\$((1+1))"
zpty -r -m shell out "*READY-2*"
for line in "\${@:3}"; do
  zpty -w -n shell "$line"$'\\t'
  zpty -w shell $'\\x01'"print -r -- RESULT-\\$((1+1)):'"$'\\x05'"'"
  zpty -r -m shell out "*RESULT-2:*highwater*"$'\\n*'
  print -r -- "\${out##*RESULT-2:}"
done
zpty -d shell`;
  const run = ["-f", "-c", script, "zsh", process.execPath, MAIN, ...lines];
  const output = execFileSync("zsh", run, { encoding: "utf8", timeout: 60_000 });
  assert.deepEqual(output.split(/[\r\n]+/).filter(Boolean), [
    "highwater doctor",
    "highwater serve tracker",
    "highwater failover candidate --accept-loss",
  ]);
});

test("options are read as the table has them", () => {
  const options = [
    { name: "one", value: "TEXT", does: "" },
    { name: "many", value: "TEXT", isMany: true, does: "" },
    { name: "yes", does: "" },
  ] as const;
  const given = Given.read(["a", "--one", "1", "--many", "x", "--many=y", "--yes", "--", "--b"], options);
  assert.deepEqual(given.positionals, ["a", "--b"]);
  assert.equal(given.text("one"), "1");
  assert.deepEqual(given.all("many"), ["x", "y"]);
  assert.ok(given.flag("yes"));
  const none = Given.read([], options);
  assert.deepEqual([none.text("one"), none.all("many"), none.flag("yes")], [null, [], false]);
});

test("a libpq connection string is read with its quotes", () => {
  const text = `host=db1 password='it\\'s so' application_name = 'us west' fallback_application_name=walreceiver`;
  assert.equal(conninfoOf(text).get("host"), "db1");
  assert.equal(streamNameOf(text), "us west");
  assert.equal(streamNameOf("host=db1 fallback_application_name=walreceiver"), "walreceiver");
});
