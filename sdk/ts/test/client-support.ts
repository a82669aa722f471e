// A client with short delays against the scripted servers of sdk/conformance, closed with the test.
import assert from "node:assert/strict";
import { type TestContext } from "node:test";
import { FakeServer, type LiveScript } from "@highwater/conformance/fake";
import { Highwater, type HighwaterOptions } from "../src/index.ts";
import { DEFAULT_TUNING, type Tuning } from "../src/tuning.ts";

const QUICK: Tuning = {
  ...DEFAULT_TUNING,
  ...{ backoffBaseMs: 2, backoffMaxMs: 20, attemptMinMs: 150 },
  ...{ streamIdleMs: 20, verdictWaitMs: 50, askAgainMs: 20 },
};
/** The second epoch begins at 60, and leaves the history of the first at 50. */
export const FAILOVER = [{ id: 1 }, { id: 2, previous: 1, fork: 50, start: 60 }] as const;

export async function service(context: TestContext, script: LiveScript = {}): Promise<FakeServer> {
  const fake = await FakeServer.start(script);
  context.after(async () => {
    await fake[Symbol.asyncDispose]();
    assert.deepEqual(fake.seen.invalid, []);
  });
  return fake;
}

/** Its limits are long: a machine that stalls must not make it send a request twice. */
export function client(
  context: TestContext,
  services: readonly FakeServer[],
  options: Omit<Partial<HighwaterOptions>, "tuning"> & { tuning?: Partial<Tuning> } = {},
): Highwater {
  const { tuning, ...rest } = options;
  const hw = new Highwater({
    ...{ url: services.map(({ url }) => url), requestTimeoutMs: 20_000, totalTimeoutMs: 30_000 },
    ...rest,
    tuning: { ...QUICK, ...tuning },
  });
  context.after(() => hw.close());
  return hw;
}

export const streaming = (fake: FakeServer): Promise<void> =>
  fake.until(({ openStreams }) => openStreams > 0);
