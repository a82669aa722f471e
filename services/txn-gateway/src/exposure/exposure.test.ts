import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  type EpochId,
  type ExposureReport,
  HighwaterError,
  type Offset,
  type ProblemDetails,
} from "@highwater/protocol";
import { epochRecord } from "@highwater/protocol/testing";
import { EPOCH_A, FakeClock, MemoryLog } from "../../test/support/fakes.ts";
import { Metrics } from "../metrics.ts";
import { type Ack } from "../txn/request.ts";
import { type Exposed, Exposure } from "./exposure.ts";
import { type ExposureLimit } from "./settings.ts";

const EPOCH = EPOCH_A as EpochId;
const at = (offset: number): Offset => BigInt(offset) as Offset;
const MOST = 10;
const TRANSACTIONS: ExposureLimit = {
  ...{ name: "exposureTransactions", scope: "all", measure: "transactions", value: MOST },
};
const RECORD = epochRecord(EPOCH_A, { startOffset: "0" });

function makeExposure(
  limits: readonly ExposureLimit[] = [TRANSACTIONS],
  options: { gateways?: number } = {},
) {
  const clock = new FakeClock();
  const log = new MemoryLog();
  const metrics = new Metrics();
  const state = { unacknowledged: 0, isConnected: true };
  const exposure = new Exposure(
    { clock, log, metrics, announcements: { pending: () => state.unacknowledged, max: 1_000 } },
    {
      settings: { level: "region", gateways: options.gateways ?? 1, units: ["EUR", "BTC"], limits },
      ...{ gateway: "g1", region: "r", hasTrackers: true, isConnected: () => state.isConnected },
    },
  );
  exposure.begin(RECORD, at(0));
  const admit = (owner = 0n, ack: Ack = "commit"): Exposed => {
    const { exposed } = exposure.admit(owner, ack);
    assert.ok(exposed !== null);
    return exposed;
  };
  let offset = 0;
  const commit = (owner = 0n, ack: Ack = "commit"): Exposed => {
    const exposed = admit(owner, ack);
    exposure.commit(exposed, EPOCH, at((offset += 100)));
    return exposed;
  };
  return { clock, log, metrics, state, exposure, admit, commit };
}

function refusal(run: () => unknown): ProblemDetails {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof HighwaterError && error.code === "exposure_limit", String(error));
    return error.details;
  }
  return assert.fail("it was admitted");
}

const report = (fields: Partial<ExposureReport>): ExposureReport => ({
  ...{ epoch: EPOCH_A, level: "region", transactions: 0, bytes: "0", oldestMs: null },
  ...{ byRegion: {}, byGateway: {}, byOwner: {} },
  ...fields,
});

test("at the limit a fast transaction is refused, with what is at risk; a mark makes room", async () => {
  const { exposure, commit, clock } = makeExposure();
  for (let count = 0; count < MOST; count++) commit();
  await clock.advance(250);
  const details = refusal(() => exposure.admit(0n, "commit"));
  assert.deepEqual(details.limit, { name: "exposureTransactions", value: MOST });
  assert.deepEqual(details.exposure, { transactions: MOST, bytes: "1000", oldestMs: 250 });
  assert.ok((details.retryAfterMs ?? 0) > 0);
  exposure.advance(EPOCH_A, at(500));
  assert.equal(exposure.pending, 5);
  assert.notEqual(exposure.admit(0n, "commit").exposed, null);
});

test("what is in flight counts from its admission, and no more once it has come to nothing", () => {
  const { exposure, admit } = makeExposure();
  const inFlight = Array.from({ length: MOST }, () => admit());
  refusal(() => exposure.admit(0n, "commit"));
  const [first] = inFlight;
  assert.ok(first !== undefined);
  exposure.release(first);
  exposure.release(first);
  assert.equal(exposure.reserved, MOST - 1);
  admit();
  refusal(() => exposure.admit(0n, "commit"));
});

test("the bound holds strictly, however admissions, commits, failures and marks follow each other", () => {
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.constant("admit" as const) },
    { weight: 2, arbitrary: fc.constant("commit" as const) },
    { weight: 1, arbitrary: fc.constant("fail" as const) },
    { weight: 1, arbitrary: fc.constant("mark" as const) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const { exposure } = makeExposure();
      const inFlight: Exposed[] = [];
      const committed: number[] = [];
      let offset = 0;
      let mark = 0;
      for (const one of steps) {
        if (one === "admit") {
          const expected = inFlight.length + committed.filter((position) => position > mark).length;
          if (expected >= MOST) refusal(() => exposure.admit(0n, "commit"));
          else inFlight.push(exposure.admit(0n, "commit").exposed ?? assert.fail());
        } else if (one === "mark") exposure.advance(EPOCH_A, at((mark = Math.ceil((mark + offset) / 2))));
        else {
          const exposed = inFlight.shift();
          if (exposed === undefined) continue;
          if (one === "fail") exposure.release(exposed);
          else {
            exposure.commit(exposed, EPOCH, at(++offset));
            committed.push(offset);
          }
        }
        assert.ok(exposure.pending + exposure.reserved <= MOST);
      }
    }),
  );
});

test("from four fifths on fast transactions are slowed down, the more the nearer, and safe ones are not", async () => {
  const { exposure, commit, clock, metrics } = makeExposure();
  for (let count = 0; count < 8; count++) assert.equal(exposure.admit(0n, "commit").slow, null);
  let slowed: string[] = [];
  void exposure.admit(0n, "commit").slow?.then(() => slowed.push("never: it is at four fifths"));
  void exposure.admit(0n, "commit").slow?.then(() => slowed.push("fast"));
  refusal(() => exposure.admit(0n, "commit"));
  assert.equal(exposure.admit(0n, "durable").slow, null);
  await clock.advance(45);
  assert.deepEqual(slowed, []);
  await clock.advance(10);
  assert.deepEqual(slowed, ["fast"]);
  slowed = [];
  assert.match(metrics.render(), /exposure_delays_total 1\n/);
  assert.match(metrics.render(), /exposure_refusals_total\{limit="exposureTransactions"\} 1\n/);
  commit(0n, "durable");
});

test("safe transactions go on at the limit, and are counted; at twice as many they are refused, and begins with them", () => {
  const { exposure, commit } = makeExposure();
  for (let count = 0; count < MOST; count++) commit();
  exposure.check(0n, "durable");
  for (let count = 0; count < MOST; count++) commit(0n, "durable");
  assert.equal(exposure.pending, 2 * MOST);
  refusal(() => exposure.admit(0n, "durable"));
  refusal(() => {
    exposure.check(0n, "durable");
  });
  exposure.advance(EPOCH_A, at(MOST * 100));
  refusal(() => exposure.admit(0n, "commit"));
  exposure.advance(EPOCH_A, at(MOST * 100 + 100));
  commit();
});

test("bytes of log and the age of the oldest are limits of their own", async () => {
  const bytes = { name: "exposureBytes", scope: "all", measure: "bytes", value: 250 } as const;
  const age = { name: "exposureAgeMs", scope: "all", measure: "ageMs", value: 1_000 } as const;
  const { exposure, commit, clock } = makeExposure([bytes, age]);
  commit();
  commit();
  commit();
  assert.equal(refusal(() => exposure.admit(0n, "commit")).limit?.name, "exposureBytes");
  exposure.advance(EPOCH_A, at(200));
  const { exposed, slow } = exposure.admit(0n, "commit");
  assert.ok(exposed !== null && slow === null);
  exposure.release(exposed);
  await clock.advance(1_000);
  const details = refusal(() => exposure.admit(0n, "commit"));
  assert.deepEqual([details.limit?.name, details.exposure?.oldestMs], ["exposureAgeMs", 1_000]);
  assert.notEqual(
    exposure.admit(0n, "durable").exposed,
    null,
    "a client that waits for durability is not deceived",
  );
});

test("one key at its limit does not hold up the others", () => {
  const key = { name: "exposureKeyTransactions", scope: "key", measure: "transactions", value: 3 } as const;
  const { exposure, commit } = makeExposure([TRANSACTIONS, key]);
  for (let count = 0; count < 3; count++) commit(7n);
  assert.equal(refusal(() => exposure.admit(7n, "commit")).exposure?.transactions, 3);
  commit(8n);
  assert.deepEqual(exposure.samples(), [
    { name: "exposureTransactions", value: MOST, used: 4, bound: MOST },
    { name: "exposureKeyTransactions", value: 3, used: 3, bound: 3 },
  ]);
  const announcements = { name: "maxPendingAnnouncements", value: 1_000, used: 0, bound: 1_000 };
  assert.deepEqual(exposure.allSamples().at(-1), announcements);
});

test("what trackers report of others counts with the own account, by region and by key too", () => {
  const region = {
    name: "exposureRegionTransactions",
    scope: "region",
    measure: "transactions",
    value: 6,
  } as const;
  const key = { name: "exposureKeyTransactions", scope: "key", measure: "transactions", value: 5 } as const;
  const { exposure, commit } = makeExposure([TRANSACTIONS, region, key]);
  commit(7n);
  commit(7n);
  // Two of these are the own ones.
  const fields = {
    byRegion: { r: 4, far: 5 },
    byGateway: { g1: 2, g2: 2, g3: 5 },
    byOwner: { "7": 4, "8": 5, nobody: 9 },
  };
  exposure.observe(report({ transactions: 9, ...fields }));
  const used = (): number[] => exposure.samples().map((sample) => sample.used);
  assert.deepEqual(used(), [9, 4, 4]);
  assert.equal(refusal(() => exposure.admit(8n, "commit")).limit?.name, "exposureKeyTransactions");
  commit(7n);
  assert.equal(refusal(() => exposure.admit(9n, "commit")).limit?.name, "exposureTransactions");
  // The tracker does not have all of the own ones yet: that does not change the share of the others.
  exposure.observe(
    report({ transactions: 3, byRegion: { r: 3 }, byGateway: { g1: 1, g2: 2 }, byOwner: { "7": 3 } }),
  );
  assert.deepEqual(used(), [5, 5, 5]);
  exposure.observe(report({ transactions: 5, byRegion: { r: 5 }, byGateway: { g1: 3, g2: 2 } }));
  assert.deepEqual(used(), [5, 5, 3]);
  commit(9n);
  assert.equal(refusal(() => exposure.admit(9n, "commit")).limit?.name, "exposureRegionTransactions");
});

test("an owner's transactions on other gateways count whatever its tag is", () => {
  const key = { name: "exposureKeyTransactions", scope: "key", measure: "transactions", value: 5 } as const;
  // The shortest, the shortest that takes more than 64 bits, and the longest.
  for (const owner of [1n, 2n ** 64n, 2n ** 128n - 1n]) {
    const { exposure } = makeExposure([key]);
    const byOwner = { [String(owner)]: 5, "-7": 5, [String(2n ** 128n)]: 5 };
    exposure.observe(report({ transactions: 5, byGateway: { g2: 5 }, byOwner }));
    assert.equal(refusal(() => exposure.admit(owner, "commit")).limit?.name, key.name, String(owner));
    assert.notEqual(exposure.admit(owner - 1n, "commit").exposed, null);
  }
});

test("an earlier life of this gateway has left something behind: a tracker knows", () => {
  const { exposure } = makeExposure();
  exposure.observe(report({ transactions: MOST, byRegion: { r: MOST }, byGateway: { g1: MOST } }));
  refusal(() => exposure.admit(0n, "commit"));
  exposure.observe(report({}));
  assert.notEqual(exposure.admit(0n, "commit").exposed, null);
});

test("without a tracker each gateway keeps to its share, by as many gateways as were known last", async () => {
  const { exposure, commit, clock, state } = makeExposure();
  exposure.observe(report({ transactions: 1, byGateway: { g2: 1 } }));
  for (let count = 0; count < 5; count++) commit();
  await clock.advance(1_000);
  commit();
  await clock.advance(1);
  const details = refusal(() => exposure.admit(0n, "commit"));
  assert.match(details.detail ?? "", /the limit 10; this gateway's share is 5/);
  assert.deepEqual([exposure.samples()[0]?.value, exposure.samples()[0]?.bound], [MOST, 5]);
  // Nothing of this gateway is pending: the tracker has no reason to speak.
  exposure.advance(EPOCH_A, at(10_000));
  for (let count = 0; count < 8; count++) assert.notEqual(exposure.admit(0n, "commit").exposed, null);
  state.isConnected = false;
  refusal(() => exposure.admit(0n, "commit"));
});

test("the number of gateways can be configured above the known number", () => {
  const { exposure, commit } = makeExposure([TRANSACTIONS], { gateways: 4 });
  commit();
  commit();
  assert.match(refusal(() => exposure.admit(0n, "commit")).detail ?? "", /this gateway's share is 2/);
});

test("a tracker that counts at another level says nothing here, and it is logged once", () => {
  const { exposure, log } = makeExposure();
  for (let count = 0; count < 3; count++) exposure.observe(report({ level: "global", transactions: 99 }));
  assert.notEqual(exposure.admit(0n, "commit").exposed, null);
  assert.deepEqual(log.events, ["exposure_level_differs"]);
});

test("announcements that no tracker acknowledges have their own bound: slower from four fifths, then refused", async () => {
  const { exposure, state, clock } = makeExposure([]);
  state.unacknowledged = 900;
  let admitted = false;
  void exposure.admit(0n, "commit").slow?.then(() => (admitted = true));
  await clock.advance(45);
  assert.equal(admitted, false);
  await clock.advance(10);
  assert.equal(admitted, true);
  state.unacknowledged = 1_000;
  const details = refusal(() => exposure.admit(0n, "commit"));
  assert.deepEqual(details.limit, { name: "maxPendingAnnouncements", value: 1_000 });
  assert.equal(details.retryAfterMs, 1_000);
  assert.equal(exposure.admit(0n, "durable").slow, null);
  state.unacknowledged = 2_000;
  refusal(() => exposure.admit(0n, "durable"));
});

test("when to come again follows from how fast marks settle: sooner the faster, and not for long when they stand still", async () => {
  const retryAfter = async (perSecond: number): Promise<number> => {
    const { exposure, commit, clock } = makeExposure([{ ...TRANSACTIONS, value: 1_000 }]);
    let mark = 0;
    for (let tenth = 0; tenth < 100; tenth++) {
      for (let count = 0; count < perSecond / 10; count++) commit();
      exposure.advance(EPOCH_A, at((mark += perSecond * 10)));
      await clock.advance(100);
    }
    for (let count = 0; count < 1_000; count++) commit();
    return refusal(() => exposure.admit(0n, "commit")).retryAfterMs ?? Number.NaN;
  };
  // A tenth of a thousand should be free again.
  const [slow, fast] = [await retryAfter(50), await retryAfter(500)];
  assert.ok(slow > 1_500 && slow < 2_500, String(slow));
  assert.ok(fast > 150 && fast < 250, String(fast));
  assert.equal(await retryAfter(0), 5_000);
});

test("without trackers it is unknown what is durable: nothing is counted, nothing refused", () => {
  const clock = new FakeClock();
  const exposure = new Exposure(
    { clock, log: new MemoryLog(), metrics: new Metrics(), announcements: { pending: () => 0, max: 1 } },
    {
      settings: { level: "region", gateways: 1, units: [], limits: [{ ...TRANSACTIONS, value: 1 }] },
      ...{ gateway: "g1", region: "r", hasTrackers: false, isConnected: () => false },
    },
  );
  for (let count = 0; count < 5; count++)
    assert.deepEqual(exposure.admit(0n, "commit"), { exposed: null, slow: null });
  exposure.check(0n, "durable");
});

const eur = (amount: string) => ({ amount, unit: "EUR" });
const valueLimit = (scope: "all" | "key", amount: string): ExposureLimit => ({
  ...{ name: "exposureValueEUR", scope, measure: "value", value: Number(amount) },
  exact: eur(amount),
});

test("a value has to fit into its limit, exactly; safe transactions and other units need no room", () => {
  const { exposure } = makeExposure([valueLimit("key", "0.3")]);
  const admit = (amount: string, owner = 1n) => exposure.admit(owner, "commit", eur(amount)).exposed;
  const first = admit("0.1");
  admit("0.2");
  const { limit, detail } = refusal(() => admit("0.000000001"));
  assert.deepEqual(limit, { name: "exposureValueEUR", value: 0.3 });
  assert.match(detail ?? "", /exposureValueEUR is 0\.3, the limit 0\.3/);
  admit("0.3", 2n);
  exposure.admit(1n, "commit", { amount: "9", unit: "BTC" });
  assert.equal(exposure.admit(1n, "durable", eur("1000")).exposed?.value, null);
  assert.ok(first !== null);
  exposure.commit(first, EPOCH, at(100));
  refusal(() => admit("0.1"));
  exposure.advance(EPOCH_A, at(100));
  const again = admit("0.1");
  assert.ok(again !== null);
  exposure.release(again);
  admit("0.1");
  const [sample] = exposure.samples();
  assert.deepEqual([sample?.used, sample?.bound], [0.3, 0.3]);
});

test("a value that no budget can hold, and a unit that has none, are wrong requests", () => {
  const { exposure } = makeExposure([valueLimit("all", "5")]);
  const wrong = (atRisk: { amount: string; unit: string }, why: RegExp): void => {
    assert.throws(
      () => exposure.admit(0n, "commit", atRisk),
      (error: HighwaterError) => error.code === "invalid_request" && why.test(error.details.detail ?? ""),
    );
  };
  wrong(eur("5.01"), /5\.01 EUR is more than the limit exposureValueEUR of 5 in all; ask for ack: durable/);
  wrong({ amount: "1", unit: "EURO" }, /EURO is not configured; use one of EUR, BTC/);
});

test("values on other gateways, and of an earlier life of this one, count; without reports each has a share", async () => {
  const { exposure, clock, state } = makeExposure([valueLimit("all", "100"), valueLimit("key", "60")], {
    gateways: 2,
  });
  const admit = (amount: string, owner = 7n) => exposure.admit(owner, "commit", eur(amount)).exposed;
  const sums = (mine: string, others: string, owner: string) => ({
    EUR: { amount: "80", byGateway: { g1: mine, g2: others }, byOwner: { "7": owner } },
  });
  exposure.observe(report({ transactions: 2, byGateway: { g1: 1, g2: 1 }, values: sums("30", "50", "40") }));
  refusal(() => admit("20.01"));
  admit("20");
  refusal(() => admit("0.5", 8n));
  // The report has the committed one by now, which counts once.
  state.isConnected = false;
  refusal(() => admit("30.01", 8n));
  admit("30", 8n);
  await clock.advance(1);
});
