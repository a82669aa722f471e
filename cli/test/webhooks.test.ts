// Goal: the commands of `highwater webhooks` do what the trackers' API does. Method: a real system, a
// real receiver, and the whole life of an endpoint, one command after another.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { System } from "@highwater/lab-system";
import { answers, ok, Receiver } from "@highwater/lab-system/receiver";
import { eventually } from "@highwater/lab-system/testing";
import { type Ended, highwater } from "./support.ts";

const EAST = "us-east";

describe("highwater webhooks", () => {
  let system: System;
  let receiver: Receiver;
  let id = "";

  before(async () => {
    receiver = await Receiver.start();
    system = await System.start({
      cluster: { nodes: [{ id: EAST, region: EAST }] },
      levels: { disk: { primary: true } },
      env: {
        TRACKER_WEBHOOK_ALLOW: "127.0.0.1",
        // The second attempt comes long after the test.
        TRACKER_WEBHOOK_DELAYS_MS: "3600000",
      },
    });
  });

  after(async () => {
    await system.close();
    await receiver.close();
  });

  const webhooks = (...args: string[]): Promise<Ended> =>
    highwater(["webhooks", ...args], { env: { HIGHWATER_TRACKERS: system.tracker(EAST).url } });
  /** Again while the tracker says that it does not reach the tables, as after a restart. */
  const patiently = (...args: string[]): Promise<Ended> =>
    eventually("the primary answers the tracker", async () => {
      const ended = await webhooks(...args);
      return / answers primary_unavailable: /.test(ended.err) ? undefined : ended;
    });
  const json = async <T>(...args: string[]): Promise<T> => {
    const { code, out, err } = await patiently(...args, "--json");
    assert.equal(code, 0, err);
    return JSON.parse(out) as T;
  };

  test("create, list and secret", async () => {
    // A tracker opens the queue a little after it begins to serve.
    const none = await patiently("list");
    assert.match(none.out, /^This owner has no endpoint/);
    const args = ["create", receiver.url, "--event", "epoch.started,transaction.lost", "--filter", "shop=7"];
    const made = await json<{ id: string; secret: string }>(...args, "--description", "orders");
    ({ id } = made);
    const { out } = await webhooks("list");
    assert.match(
      out,
      new RegExp(`^endpoint .*\n${id} +enabled +${receiver.url} +epoch.started, transaction.lost$`),
    );
    const { secret } = await json<{ secret: string }>("secret", id);
    assert.equal(secret, made.secret);
    const rotated = await webhooks("secret", id, "--rotate", "--overlap", "60");
    assert.match(
      rotated.out,
      new RegExp(`^whsec_.*\nuntil .* also signs: ${made.secret.replaceAll("+", "\\+")}$`),
    );
  });

  test("test: what the endpoint answered, and the exit code that goes with it", async () => {
    const good = await webhooks("test", id);
    assert.equal(good.code, 0, good.err);
    assert.match(good.out, /^msg_\S+ \(webhook\.test\): delivered\n.*\n +1 +\S+ +delivered 204 /);
    receiver.behaviour = answers(500, {}, "no\nroom");
    const bad = await webhooks("test", id);
    assert.equal(bad.code, 3, bad.out);
    assert.match(bad.out, /failed\n.*\n +1 +\S+ +status 500 +\d+ ms +no room$/);
  });

  test("deliveries, delivery, redeliver and recover", async () => {
    const before = receiver.received.length;
    await system.cluster.restart(EAST);
    await receiver.count(before + 1);
    const failed = await eventually("the event's delivery has failed once", async () => {
      const { deliveries } = await json<{ deliveries: { id: string; type: string; attempts: number }[] }>(
        "deliveries",
        id,
        "--status",
        "pending",
      );
      return deliveries.find(({ type, attempts }) => type === "epoch.started" && attempts === 1);
    });
    const shown = await patiently("delivery", id, failed.id);
    assert.match(shown.out, new RegExp(`^${failed.id} \\(epoch.started\\): pending\n`));
    assert.match(shown.out, /\n\{.*"type":"epoch\.started"/);
    receiver.behaviour = ok;
    const again = await patiently("redeliver", id, failed.id);
    assert.match(again.out, new RegExp(`^${failed.id} \\(epoch.started\\): pending$`));
    await eventually("it is delivered", async () => {
      const { deliveries } = await json<{ deliveries: { id: string }[] }>(
        "deliveries",
        id,
        "--status",
        "delivered",
      );
      return deliveries.some((each) => each.id === failed.id);
    });
    const recovered = await patiently("recover", id, "--since", "1h");
    assert.match(recovered.out, /^0 deliveries since \S+ are sent again$/);
    const page = await patiently("deliveries", id, "--limit", "1");
    assert.match(page.err, /^There are older ones: --before \d+$/);
  });

  test("disable, enable and delete", async () => {
    assert.match((await patiently("disable", id)).out, /: disabled \(/);
    const disabled = await patiently("recover", id, "--since", "2026-01-01T00:00:00Z");
    assert.equal(disabled.code, 1);
    assert.match(disabled.err, /is disabled.*highwater webhooks enable/);
    assert.match((await patiently("enable", id)).out, /: enabled$/);
    assert.match((await patiently("delete", id)).out, /: deleted/);
    const gone = await patiently("test", id);
    assert.equal(gone.code, 1);
    assert.match(gone.err, /not_found/);
  });

  test("wrong arguments", async () => {
    for (const [args, says] of [
      [["test"], /name the endpoint, and nothing else/],
      [["redeliver", "a"], /name the endpoint and the delivery/],
      [["test", "../x"], /\.\.\/x is no endpoint/],
      [["create", "https://x"], /name at least one --event/],
      [["create", "https://x", "--event", "a", "--filter", "b"], /--filter b must be NAME=VALUE/],
      [["recover", "a", "--since", "yesterday"], /--since must be a time/],
      [["secret", "a", "--overlap", "5"], /--overlap goes with --rotate/],
    ] as const) {
      const { code, err } = await webhooks(...args);
      assert.equal(code, 2, args.join(" "));
      assert.match(err, says);
    }
  });
});
