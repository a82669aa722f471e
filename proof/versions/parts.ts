// What runs on each version, and what its output says.

const CHAOS_SECONDS = 120;
/** Trackers ask the replicas themselves, and services require API keys. */
const CHAOS_SEED = 6;
/** Every third one loses two regions. */
const ROUNDS = 6;

export interface Result {
  readonly isGood: boolean;
  /** One line for the page. */
  readonly says: string;
  /** Tests that were skipped, each with its reason. */
  readonly skipped: readonly string[];
}

export interface Part {
  readonly name: string;
  /** Arguments of Node. Test files may be patterns. */
  readonly command: readonly string[];
  readonly resultOf: (code: number | null, output: string) => Result;
}

const RUN_TESTS = "scripts/run-tests.ts";

/**
 * Executions that once gave a wrong verdict, ran twice or hung, and the loss of a region, a backend
 * and a service.
 */
const EXECUTIONS = [
  "lab/system/test/{histories,failover,invariants}.slow.test.ts",
  "lab/system/test/failover.test.ts",
  "services/durability-tracker/test/faults/{gateway-killed,tracker-killed}.test.ts",
];

const WIRE = ["services/txn-gateway/test/wire/*.test.ts", "proof/clients/test/clients.slow.test.ts"];

export const PARTS: readonly Part[] = [
  {
    name: "conformance",
    command: [RUN_TESTS, "packages/store/test/postgres.*.test.ts"],
    resultOf: testResult,
  },
  { name: "executions", command: [RUN_TESTS, ...EXECUTIONS], resultOf: testResult },
  { name: "wire", command: [RUN_TESTS, ...WIRE], resultOf: testResult },
  { name: "rounds", command: ["examples/ad-exchange/src/rounds.ts", String(ROUNDS)], resultOf: roundsResult },
  {
    name: "chaos",
    command: ["proof/chaos/src/cli.ts", "--duration-s", String(CHAOS_SECONDS), "--seed", String(CHAOS_SEED)],
    resultOf: chaosResult,
  },
];

/** Errors: no such part. */
export function chosenParts(only: string): readonly Part[] {
  const names = only.split(",").filter((name) => name !== "");
  const unknown = names.filter((name) => !PARTS.some((part) => part.name === name));
  if (unknown.length > 0)
    throw new Error(
      `there is no part ${unknown.join(", ")}: ONLY takes one or more of ${PARTS.map(({ name }) => name).join(",")}`,
    );
  return names.length === 0 ? PARTS : PARTS.filter(({ name }) => names.includes(name));
}

/** Node's reporter prints the counts last, and marks what is skipped. */
export function testResult(code: number | null, output: string): Result {
  const count = (name: string): number =>
    Number(new RegExp(`^ℹ ${name} ([0-9]+)$`, "m").exec(output)?.[1] ?? Number.NaN);
  const [pass, fail, cancelled] = [count("pass"), count("fail"), count("cancelled")];
  const skipped = [...output.matchAll(/^ *﹣ (.+?) \([0-9.]+ms\)(?: # (.+))?$/gm)].map(
    ([, name = "", reason = ""]) => `${name}: ${reason}`,
  );
  const isGood = code === 0 && fail === 0 && cancelled === 0 && pass > 0;
  if (Number.isNaN(pass)) return { isGood: false, says: `FAILED: exit code ${String(code)}`, skipped };
  const rest = skipped.length === 0 ? "" : `, ${String(skipped.length)} skipped`;
  const failures = isGood ? "" : `FAILED: ${String(fail + cancelled)} failed, exit code ${String(code)}, `;
  return { isGood, says: `${failures}${String(pass)} passed${rest}`, skipped };
}

/** A verdict that comes late on a busy machine is none that is wrong. */
export function roundsResult(code: number | null, output: string): Result {
  const found = lastJson(output);
  const isGood = /^met {4}wrong verdicts/m.test(output) && found !== null;
  const { rounds, failovers, committed, lost, wrong, pending } = found ?? {};
  const says =
    found === null
      ? `FAILED: exit code ${String(code)}`
      : `${isGood ? "" : "FAILED: "}${String(rounds)} rounds, ${String(failovers)} failovers, ${String(committed)} committed, ${String(lost)} lost, ${String(wrong)} wrong, ${String(pending)} pending`;
  return { isGood, says, skipped: [] };
}

export function chaosResult(code: number | null, output: string): Result {
  const { seed, faults, committed, lost, violations, pending } = lastJson(output) ?? {};
  const counts = Object.values(faults ?? {}) as number[];
  const isGood = code === 0 && violations === 0 && pending === 0;
  const total = counts.reduce((sum, each) => sum + each, 0);
  const says = `seed ${String(seed)}, ${String(total)} faults of ${String(counts.length)} kinds, ${String(committed)} committed, ${String(lost)} lost, ${String(violations)} violations, ${String(pending)} pending`;
  return { isGood, says: isGood ? says : `FAILED: exit code ${String(code)}, ${says}`, skipped: [] };
}

function lastJson(output: string): Readonly<Record<string, unknown>> | null {
  const line = output
    .trimEnd()
    .split("\n")
    .findLast((each) => each.startsWith("{"));
  return line === undefined ? null : (JSON.parse(line) as Readonly<Record<string, unknown>>);
}
