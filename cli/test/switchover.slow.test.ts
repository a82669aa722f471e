// Goal: a switchover loses nothing, wherever it is interrupted, and refuses where it would. Method:
// three regions with real services and writers that never stop, through every gateway and past all of
// them; the command runs as a process, is killed after each of its steps, and is started again.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { System } from "@highwater/lab-system";
import { createTable, eventually, starve } from "@highwater/lab-system/testing";
import { environmentOf, type Switchover, switchover, switchoverHere, Writers } from "./switchover-support.ts";

const [EAST, WEST, EUROPE] = ["us-east", "us-west", "eu-west"] as const;
const LIMIT_MS = 300_000;
const FOLLOWERS =
  "SELECT application_name AS name FROM pg_stat_replication WHERE state = 'streaming' ORDER BY 1";

/** Each is printed when the step is done. */
const STEPS = ["Handed over", "Restart ", "Promoted", "Authorized", "Pointed"] as const;

describe("a switchover under writes", { timeout: 5 * LIMIT_MS }, () => {
  let system: System;
  let writers: Writers;
  let env: Record<string, string>;
  let primary: string = EAST;

  before(async () => {
    system = await System.start();
    await createTable(system, EAST);
    writers = await Writers.start(system, [EAST, WEST, EUROPE]);
    env = await environmentOf(system, EAST);
  });

  after(async () => {
    await writers.stop();
    await system.close();
  });

  /** Restarts the old primary when it is asked to. */
  const run = async (
    target: string,
    {
      killAt,
      restart = () => system.cluster.restart(primary),
      onLine,
    }: {
      killAt?: string;
      restart?: (() => Promise<void>) | null;
      onLine?: (line: string) => void;
    } = {},
  ): Promise<Switchover> => {
    let restarting: Promise<void> = Promise.resolve();
    const ended = await switchover({
      args: [target, "--admin", "postgres", "--yes"],
      env,
      onLine: (line, kill) => {
        onLine?.(line);
        if (killAt !== undefined && line.startsWith(killAt)) kill();
        else if (line.startsWith("Restart ") && restart !== null) restarting = restart();
      },
    });
    await restarting;
    return ended;
  };
  const isReplica = async (node: string): Promise<boolean> => {
    const [row] = await system.cluster.query(node, "SELECT pg_is_in_recovery() AS is");
    return row?.["is"] === true;
  };
  const assertDone = async ({ code, said }: Switchover, target: string): Promise<void> => {
    assert.equal(code, 0, said);
    assert.match(said, new RegExp(`DONE: ${target} is the primary`));
    const others = [EAST, WEST, EUROPE].filter((node) => node !== target);
    const followers = await system.cluster.query(target, FOLLOWERS);
    assert.deepEqual(
      followers.map(({ name }) => name),
      [...others].sort(),
    );
    for (const node of others) {
      assert.ok(await isReplica(node));
      await assert.rejects(
        system.cluster.query(node, "INSERT INTO direct VALUES (-1)"),
        /read-only transaction/,
      );
    }
    primary = target;
    await writers.more(30);
  };

  test("without an interruption, and what it says as it goes", async (context) => {
    const ended = await run(WEST);
    await assertDone(ended, WEST);
    let from = 0;
    for (const step of STEPS) {
      const found = ended.said.indexOf(`\n${step}`, from);
      assert.ok(found >= from, `${step} comes in its turn: ${ended.said}`);
      from = found;
    }
    assert.match(
      ended.said,
      /If this is interrupted: highwater switchover us-west; or call it off: highwater switchover us-east/,
    );
    const [gap] = /No node was writable for at most [\d.]+ s/.exec(ended.said) ?? [];
    assert.ok(gap !== undefined, ended.said);
    context.diagnostic(gap);
    // A second time there is nothing to do.
    const again = await run(WEST);
    assert.equal(again.code, 0, again.said);
    assert.doesNotMatch(again.said, /If this is interrupted/);
  });

  test("killed after every step, and started again", async () => {
    const left = new Set<string>(STEPS);
    while (left.size > 0) {
      const target = primary === EAST ? WEST : EAST;
      for (const step of left) {
        const { code } = await run(target, { killAt: step });
        // Otherwise the kill before came late, and this step was done by then.
        if (code === null) left.delete(step);
      }
      await assertDone(await run(target), target);
    }
  });

  test("killed while no node is writable: the old primary comes back, and nothing else is promoted", async () => {
    const target = primary === EAST ? WEST : EAST;
    const old = primary;
    // It dies when it asks for the restart.
    await run(target, { killAt: "Restart " });
    await system.cluster.restart(old);
    assert.ok(await isReplica(old));
    const other = await run(EUROPE, { restart: null });
    assert.equal(other.code, 3, other.said);
    assert.match(
      other.said,
      new RegExp(`${old} is handing over to ${target}. Finish that: .*; or call it off`),
    );
    const back = await run(old, { restart: null });
    await assertDone(back, old);
    assert.match(back.said, new RegExp(`Promoted ${old} again`));
  });

  test("called off before the restart: nothing has changed, and a restart changes nothing", async () => {
    const target = primary === EAST ? WEST : EAST;
    await run(target, { killAt: "Handed over" });
    const back = await run(primary, { restart: null });
    await assertDone(back, primary);
    assert.match(back.said, /Called off: .* stays the primary/);
    await system.cluster.restart(primary);
    assert.ok(!(await isReplica(primary)));
    await writers.more(10);
  });

  test("a target that lags is waited for, and is not promoted before", async () => {
    const old = primary;
    const target = old === EAST ? WEST : EAST;
    let feed: (() => Promise<void>) | null = null;
    let isBehind = false;
    const ended = await run(target, {
      restart: async () => {
        feed = await starve(system, target, old);
        await writers.more(20);
        await system.cluster.restart(old);
      },
      onLine: (line) => {
        // Without a stream it may not even know of the newest timeline.
        if (isBehind || !/ lacks \d+ bytes that | is not on the timeline of /.test(line)) return;
        isBehind = true;
        void feed?.();
      },
    });
    assert.ok(isBehind, ended.said);
    await assertDone(ended, target);
  });

  test("at the end nothing is lost, and every verdict says so", async () => {
    await writers.stop();
    assert.ok(writers.written.length > 100 && writers.direct.length > 100);
    await writers.assertNothingLost(primary);
  });
});

describe("a switchover that would lose something, or fail half-way", { timeout: LIMIT_MS }, () => {
  let system: System;
  let env: Record<string, string>;

  before(async () => {
    system = await System.start();
    await createTable(system, EAST);
    env = await environmentOf(system, EAST);
  });

  after(() => system.close());

  const plan = async (...args: string[]): Promise<Switchover> =>
    switchoverHere({ args: [WEST, "--admin", "postgres", "--plan", "--json", ...args], env });
  const refusal = async (...args: string[]): Promise<string> => {
    const { code, result, said } = await plan(...args);
    assert.equal(code, 3, said);
    assert.deepEqual([result?.outcome, result?.steps, result?.goOn], ["refused", [], null]);
    return result?.reasons.join("\n") ?? "";
  };
  const alter = async (node: string, setting: string): Promise<void> => {
    await system.cluster.query(node, `ALTER SYSTEM ${setting}`);
    await system.cluster.query(node, "SELECT pg_reload_conf()");
  };

  test("the plan changes nothing", async () => {
    const { code, result } = await plan();
    assert.deepEqual([code, result?.outcome], [0, "planned"]);
    const text = await switchoverHere({ args: [WEST, "--admin", "postgres", "--plan"], env });
    assert.match(
      text.said,
      /^us-east is the primary; us-west is \d+ bytes of log behind it\.\n {2}1\. hand over/m,
    );
    const unsure = await switchoverHere({ args: [WEST, "--admin", "postgres"], env });
    assert.equal(unsure.code, 2, unsure.said);
    assert.match(unsure.said, /add --yes to do it, or --plan/);
    assert.deepEqual(
      await system.cluster.query(EAST, "SELECT pg_ls_dir('.') AS file INTERSECT SELECT 'standby.signal'"),
      [],
    );
  });

  test("UNLOGGED tables, whose rows no standby has", async () => {
    await system.cluster.query(EAST, "CREATE UNLOGGED TABLE carts (id int)");
    assert.match(await refusal(), /UNLOGGED, so us-west lacks them: public\.carts/);
    assert.equal((await plan("--accept-unlogged")).code, 0);
    await system.cluster.query(EAST, "DROP TABLE carts");
  });

  test("a role without the rights, a delayed target, a setting that is too small, another timeline", async () => {
    const { code, said } = await switchoverHere({ args: [WEST, "--plan"], env });
    assert.equal(code, 3);
    assert.match(said, /the role is no superuser on us-east, us-west, eu-west: name one with --admin/);
    await alter(WEST, "SET recovery_min_apply_delay = '1min'");
    await eventually("it is seen", async () => /us-west delays its replay/.test((await plan()).said));
    await alter(WEST, "RESET recovery_min_apply_delay");
    await alter(EUROPE, "SET recovery_target_timeline = 'current'");
    await system.cluster.restart(EUROPE);
    assert.match(await refusal(), /recovery_target_timeline is current on eu-west/);
    await alter(EUROPE, "RESET recovery_target_timeline");
    await system.cluster.restart(EUROPE);
    await alter(WEST, "SET max_connections = 300");
    await system.cluster.restart(WEST);
    await eventually("the smaller ones are named", async () =>
      /max_connections is 250 on us-east, and 300 on us-west/.test((await plan()).said),
    );
    await alter(WEST, "RESET max_connections");
    await system.cluster.restart(WEST);
    await eventually("nothing speaks against it", async () => (await plan()).code === 0);
  });

  test("a node that is down: named, or left out and pointed later", async () => {
    await system.cluster.stop(EUROPE);
    assert.match(await refusal(), /eu-west does not answer: .*add --without eu-west/);
    const args = [WEST, "--admin", "postgres", "--yes", "--json", "--without", EUROPE];
    const restart = `${process.execPath} -e 'process.exit(3)'`;
    const failed = await switchoverHere({ args: [...args, "--restart-command", restart], env });
    assert.equal(failed.code, 1, failed.said);
    assert.deepEqual(failed.result?.reasons, ["--restart-command failed: 3"]);
    assert.match(failed.result?.goOn ?? "", /see that us-east runs, then highwater switchover us-west/);
    // What is half done goes on. The server crashes instead of stopping, which loses what no disk had.
    await system.cluster.kill(EAST);
    await system.cluster.start(EAST);
    const ended = await switchoverHere({ args, env });
    assert.equal(ended.code, 0, ended.said);
    assert.deepEqual([ended.result?.stoppedCleanly, ended.result?.epoch?.node], [false, WEST]);
    assert.match(ended.result?.warnings.join("\n") ?? "", /us-east was not stopped cleanly/);
    await system.cluster.start(EUROPE);
    const pointed = await switchoverHere({ args: [WEST, "--admin", "postgres", "--yes", "--json"], env });
    assert.equal(pointed.code, 0, pointed.said);
    assert.deepEqual(
      pointed.result?.steps.map(({ step }) => step),
      ["follow"],
    );
    assert.equal((await system.cluster.query(WEST, FOLLOWERS)).length, 2);
  });

  test("a primary without any standby, and a wait that is over", async () => {
    // Europe's file has another way to the east, so it goes on from where it is.
    const waiting = await switchoverHere({
      args: [EUROPE, "--admin", "postgres", "--yes", "--json", "--wait", "0"],
      env: await environmentOf(system, EUROPE),
    });
    assert.equal(waiting.code, 4, waiting.said);
    assert.equal(waiting.result?.outcome, "unfinished");
    assert.match(waiting.result?.goOn ?? "", /highwater switchover eu-west/);
    const back = await switchoverHere({ args: [WEST, "--admin", "postgres", "--yes", "--json"], env });
    assert.equal(back.code, 0, back.said);
    assert.deepEqual(
      back.result?.steps.map(({ step }) => step),
      ["call_off"],
    );
  });
});
