// Measures the cost of a trace for the gateway's process: the processor time of everything that it
// does for one transaction's trace, up to the last byte that leaves for a collector in another
// process. Unlike throughput, the result hardly depends on other work of the machine.
import { realClock } from "@highwater/runtime";
import { startTelemetry } from "@highwater/service";
import { type EpochId, type Offset, parseTxnId } from "@highwater/protocol";
import { TransactionTrace } from "@highwater/txn-gateway/internals";

const ID = parseTxnId("01890a5d-ac96-774b-bcce-b302099a8057");
const EPOCH = "11111111-1111-4111-8111-111111111111" as EpochId;
const ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT";
/** Timers and sockets get their turn as often as under load. */
const TOGETHER = 100;

/** Microseconds of processor time for each transaction; `ratio` is the share that is sampled. */
export async function traceCost(ratio: number, transactions: number, collector: string): Promise<number> {
  if (ID === undefined) throw new Error("no id");
  const id = ID;
  process.env[ENDPOINT] = collector;
  const { tracer, close } = await startTelemetry(
    { traces: true, metrics: false, logs: false, metricsEveryMs: 60_000, sampling: { parent: true, ratio } },
    {
      service: "txn-gateway",
      identity: { name: "bench", region: "here" },
      clock: realClock,
      random: Math.random,
    },
  );
  Reflect.deleteProperty(process.env, ENDPOINT);
  if (tracer === undefined) throw new Error("no tracer");
  const one = (): void => {
    const request = tracer.request(undefined);
    const trace = new TransactionTrace(
      request,
      { id, ack: "commit", isolation: "serializable", readOnly: false, form: "one_shot", statements: 2 },
      null,
    );
    trace.storeBegan("primary");
    trace.storeEnded();
    trace.committed({ epoch: EPOCH, offset: 123_456_789n as Offset, owner: 0n });
    trace.ended("committed");
    request.end("POST /v1/transactions", () => ({
      "http.request.method": "POST",
      "http.route": "/v1/transactions",
      "http.response.status_code": 200,
    }));
    trace.settled("durable", "zone");
  };
  let began = process.cpuUsage();
  // The first quarter is for the compiler.
  const counted = transactions - Math.floor(transactions / 4);
  for (let n = 0; n < transactions; n++) {
    if (n === transactions - counted) began = process.cpuUsage();
    one();
    if (n % TOGETHER === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await close();
  const { user, system } = process.cpuUsage(began);
  return (user + system) / counted;
}
