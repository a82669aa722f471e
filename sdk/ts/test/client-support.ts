// A client with short delays against fake services, closed with the test.
import { type TestContext } from "node:test";
import { Highwater, type HighwaterOptions } from "../src/index.ts";
import { DEFAULT_TUNING, type Tuning } from "../src/tuning.ts";
import { FakeService, type Script } from "./fake-service.ts";

export const QUICK: Tuning = {
  ...DEFAULT_TUNING,
  backoffBaseMs: 2,
  backoffMaxMs: 20,
  attemptMinMs: 150,
  streamIdleMs: 20,
  verdictWaitMs: 50,
  askAgainMs: 20,
};

export async function service(context: TestContext, script: Script = {}): Promise<FakeService> {
  const fake = await FakeService.start(script);
  context.after(() => fake[Symbol.asyncDispose]());
  return fake;
}

/** Its limits are long: a machine that stalls must not make it send a request twice. */
export function client(
  context: TestContext,
  services: readonly FakeService[],
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
