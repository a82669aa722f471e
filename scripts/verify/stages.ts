// The stages of `make verify`, and what each takes from the output of its program: its headline
// figures and its bars.

export interface Figure {
  readonly name: string;
  /** That of a bar ends with `met` or `MISSED`. */
  readonly value: string;
}
type Figures = (output: string) => Figure[];

export interface Stage {
  readonly name: string;
  readonly command: string;
  /** A stage that takes longer is ended and has failed. */
  readonly limitMinutes: number;
  readonly figures: Figures;
  /** Paths that are not part of what it runs, as git's pathspecs. */
  readonly unread: readonly string[];
  /** Its bars depend on the machine: a missed one is reported and is no failure. */
  readonly isBenchmark?: boolean;
}

export interface Outcome {
  readonly result: "passed" | "missed" | "failed";
  /** Why it has not passed. */
  readonly reason: string | null;
  readonly figures: readonly Figure[];
}

/**
 * Bars of benchmarks that say whether answers are right: to miss one is a failure on every machine.
 */
const CORRECTNESS = /^(?:wrong verdicts|unexpected answers)/;
const VERDICT = /^(met {3}|MISSED) (.+?)(?:: (-?[0-9.e+-]+|NaN|-?Infinity|null))?$/;
/**
 * The exit code of make is 2 whatever the program's is. Its last line has the program's, in every
 * language.
 */
const MAKE_1 = /^make: \*\*\* \[.*\] \S+ 1$/;

/** What became of a stage that has ended with this exit code. */
export function outcomeOf(
  { figures: figuresOf, isBenchmark = false }: Stage,
  code: number | null,
  output: string,
): Outcome {
  const figures = figuresOf(output);
  const missed = figures.filter(({ value }) => value.endsWith("MISSED")).map(({ name }) => name);
  const reason = missed.length === 0 ? null : `missed: ${missed.join("; ")}`;
  const [bar = "", make = ""] = output.trimEnd().split("\n").slice(-2);
  // A run that broke prints something behind its bars, if it has come to them.
  const isWhole = code === 0 || (VERDICT.test(bar) && MAKE_1.test(make));
  if (isBenchmark && isWhole && reason !== null && !missed.some((name) => CORRECTNESS.test(name)))
    return { result: "missed", reason, figures };
  if (code === 0 && figures.length === 0)
    return { result: "failed", reason: "it printed no figures", figures };
  if (code === 0 && reason === null) return { result: "passed", reason, figures };
  return { result: "failed", reason: reason ?? `exit code ${String(code)}`, figures };
}

function jsonLines(output: string): Readonly<Record<string, unknown>>[] {
  return output.split("\n").flatMap((line) => {
    try {
      return line.startsWith("{") ? [JSON.parse(line) as Readonly<Record<string, unknown>>] : [];
    } catch {
      return [];
    }
  });
}

const figure = (name: string, value: unknown): Figure => ({ name, value: String(value) });
const sum = (values: readonly unknown[]): number =>
  values.reduce<number>((all, each) => all + Number(each), 0);

/** From the last line of JSON. */
function last(names: string): Figures {
  return (output) => {
    const found = jsonLines(output).at(-1) ?? {};
    return names
      .split(" ")
      .flatMap((name) =>
        name in found ? [figure(name.replaceAll(/_|(?=[A-Z])/g, " ").toLowerCase(), found[name])] : [],
      );
  };
}

/** Each match of a pattern that captures a name and a value. */
function matches(pattern: RegExp, unit = ""): Figures {
  return (output) =>
    [...output.matchAll(pattern)].map(([, name = "", value = ""]) =>
      figure(name.replaceAll(/ +/g, " ") + unit, value.replaceAll('"', "").replaceAll(/ +/g, " ")),
    );
}

function all(...parts: readonly Figures[]): Figures {
  return (output) => parts.flatMap((part) => part(output));
}

export function bars(output: string): Figure[] {
  return output.split("\n").flatMap((line) => {
    const [, verdict, name = "", measured] = VERDICT.exec(line) ?? [];
    if (verdict === undefined) return [];
    return [figure(name, `${measured === undefined ? "" : `${measured}, `}${verdict.trim()}`)];
  });
}

function faults(output: string): Figure[] {
  const counts = Object.values(jsonLines(output).at(-1)?.["faults"] ?? {});
  return counts.length === 0
    ? []
    : [figure("faults", `${String(sum(counts))} of ${String(counts.length)} kinds`)];
}

function fuzz(output: string): Figure[] {
  const targets = jsonLines(output).filter((line) => "target" in line);
  if (targets.length === 0) return [];
  return [
    figure("targets", targets.length),
    figure("inputs", sum(targets.map(({ runs }) => runs))),
    figure("seed", targets[0]?.["seed"]),
    figure("found", [...output.matchAll(/^FOUND /gm)].length),
  ];
}

/**
 * Folders that only these stages run, given by the beginnings of their names. Every stage runs what
 * is in none of them.
 */
export const OWN_FOLDERS: Readonly<Record<string, readonly string[]>> = {
  cli: ["install-test"],
  dashboards: ["infra-test", "install-test"],
  examples: ["bench", "experiments", "failover-rounds", "infra-test", "soak", "versions"],
  "infra/image": ["infra-test", "install-test"],
  "infra/terraform": ["infra-test"],
  "loadtests/capacity": ["bench-capacity"],
  "loadtests/experiments": ["bench", "experiments", "soak"],
  "loadtests/gateway": ["bench", "experiments", "soak"],
  "loadtests/k6": ["load-smoke"],
  "loadtests/pgwire": ["bench-pgwire"],
  "loadtests/results": [],
  "loadtests/rounds": ["bench", "experiments", "soak"],
  "loadtests/sdk": ["bench-gateway", "bench-sdk"],
  "loadtests/tracker": ["bench", "experiments", "soak"],
  "proof/attack": [],
  "proof/chaos": ["chaos", "patroni-rows", "versions"],
  "proof/checker": ["chaos", "patroni-rows", "versions"],
  "proof/clients": ["foreign-suites", "versions"],
  "proof/fuzz": ["fuzz"],
  "proof/soak": ["soak"],
  "proof/versions": ["versions"],
  "proof/wire": ["fuzz"],
  scripts: ["install-test"],
  site: [],
  "sdk/conformance": ["install-test"],
  "sdk/python/tests": [],
  "services/durability-tracker/sim": ["sim"],
  // Sessions: every gateway listens for them, and only these stages open any.
  "services/txn-gateway/src/wire/model": [
    "bench-pgwire",
    "chaos",
    "foreign-suites",
    "fuzz",
    "install-test",
    "load-smoke",
    "versions",
  ],
  // Positions and attempts of the wire: the simulation calls these itself.
  "services/txn-gateway/src/wire": [
    "bench-pgwire",
    "chaos",
    "foreign-suites",
    "fuzz",
    "infra-test",
    "install-test",
    "load-smoke",
    "sim",
    "versions",
  ],
};

/** What imports from a folder above and runs nothing of it in stages that do not ask for it. */
export const IDLE_IMPORTS: Readonly<Record<string, string>> = {
  "proof/checker": "scripts/",
  "services/durability-tracker/sim": "scripts/",
  "services/txn-gateway/src/wire/model": "services/txn-gateway/src/",
  "loadtests/sdk": "loadtests/gateway/",
  "services/txn-gateway/src/wire": "services/txn-gateway/src/",
};

/** `chaos` is the beginning of `chaos-5`. */
const beginsWith = (name: string, beginning: string): boolean => `${name}-`.startsWith(`${beginning}-`);

/** The stages that run test files, and the folders whose tests each of them does not run. */
const WITH_OTHER_TESTS: Readonly<Record<string, readonly string[]>> = {
  "infra-test": ["docs", "examples", "lab", "loadtests", "packages", "proof", "sdk", "services"],
  "install-test": [
    ...["cli", "dashboards", "docs", "examples", "infra", "lab", "loadtests", "packages", "proof"],
    ...["sdk/conformance", "sdk/python", "services", "site"],
  ],
  versions: [
    ...["docs", "examples", "infra", "loadtests", "sdk"],
    ...["lab/cluster", "lab/tools", "packages/*/src", "services/*/src"],
  ],
};

function unreadBy(name: string): string[] {
  const foreign = Object.entries(OWN_FOLDERS)
    .filter(([, names]) => !names.some((beginning) => beginsWith(name, beginning)))
    .map(([folder]) => folder);
  const runner = Object.keys(WITH_OTHER_TESTS).find((beginning) => beginsWith(name, beginning)) ?? "";
  const tests = WITH_OTHER_TESTS[runner]?.map((folder) => `${folder}/*.test.ts`) ?? ["*.test.ts"];
  return [...foreign, ...tests];
}

const SIM = { limitMinutes: 30, figures: last("seed runs failed runsPerMinute") };
const CHAOS = {
  figures: all(
    last("seed"),
    faults,
    last(
      "committed durable lost unknown_resolved promises_broken replayed conflicts unrecoverable pending violations",
    ),
  ),
  limitMinutes: 45,
};
const ROUNDS = all(
  last(
    "rounds failovers committed durable lost pending wrong verdict_after_promotion_ms_p50 verdict_after_promotion_ms_max",
  ),
  bars,
);
const SOAK = {
  figures: all(matches(/^(steady|tracker down|overload): (.+)$/gm), bars),
  limitMinutes: 30,
};
/** What `make versions` says of a version, in the order of the page. */
export const VERSION_FIGURES = "postgres from conformance executions wire rounds chaos skipped";
/** PostgreSQL's; each has a stage `versions-15` and so on. */
export const MAJORS = ["15", "16", "17", "18"] as const;
const TESTS = matches(/^ℹ (tests|pass|fail|skipped) ([0-9]+)$/gm);
const SMOKE = all(
  matches(/^ +(commits\/s .+)\n\w* +(.+)$/gm),
  matches(/^([0-9]+ committed), (.+)$/gm),
  matches(/^(table|wire|sdk): (.+)$/gm),
  bars,
);
const GATEWAY = all(
  matches(
    /^([0-9]+ clients?(?:, one statement)? {2,}\w\S*(?: \S+)*) {2,}([0-9.]+) /gm,
    ", transactions a second",
  ),
  bars,
);
/** Ratios whose names end so. */
function ratios(ending: string): Figures {
  const pattern = new RegExp(`^ +([0-9.]+) {2}(.+ ${ending})$`, "gm");
  return (output) => [...output.matchAll(pattern)].map(([, ratio, name = ""]) => figure(name, ratio));
}
const SDK = ratios("to bare");
const CAPACITY = all(ratios("predicted to measured"), bars);
const PGWIRE = all(
  matches(/^((?:one client|128 \w+) +(?:direct on|wire \w+)) +([0-9.]+)/gm, ", transactions a second"),
  bars,
);
const OVERLOAD = all(
  matches(/^(overload {2}\w+(?: \w+)*) {2,}([0-9.]+) /gm, ", transactions a second"),
  bars,
);
const EXPERIMENTS = all(matches(/^([a-z]+), ([0-9]+ s)$/gm), bars);
const BENCHMARK = { limitMinutes: 30, isBenchmark: true };

export const STAGES: readonly Stage[] = [
  { name: "sim-1", command: "make sim RUNS=20000 SEED=1", ...SIM },
  { name: "sim-2", command: "make sim RUNS=20000 SEED=2", ...SIM },
  { command: "make fuzz SECONDS=60", limitMinutes: 15, figures: fuzz },
  { name: "fuzz-pgwire", command: "make fuzz SECONDS=300 TARGET=pgwire", limitMinutes: 15, figures: fuzz },
  // Clocks that jump and expiry within seconds; asked replicas and API keys; clocks and API keys.
  { name: "chaos-5", command: "make chaos DURATION_S=900 SEED=5", ...CHAOS },
  { name: "chaos-6", command: "make chaos DURATION_S=900 SEED=6", ...CHAOS },
  { name: "chaos-9", command: "make chaos DURATION_S=900 SEED=9", ...CHAOS },
  // Lost transactions are brought back. The last seed has clocks that jump.
  ...[2, 7, 13].map((seed) => ({
    name: `chaos-replay-${String(seed)}`,
    command: `make chaos REPLAY=1 DURATION_S=600 SEED=${String(seed)}`,
    ...CHAOS,
  })),
  { command: "make chaos-mutants", limitMinutes: 60, figures: last("mutants caught") },
  { command: "make chaos-patroni DURATION_S=300", ...CHAOS },
  { command: "make patroni-rows", limitMinutes: 45, figures: last("rows failed") },
  { name: "soak-steady", command: "make soak SCENARIO=steady", ...SOAK },
  { name: "soak-tracker-down", command: "make soak SCENARIO=tracker-down", ...SOAK },
  { name: "soak-overload", command: "make soak SCENARIO=overload", ...SOAK },
  { command: "make failover-rounds N=20", figures: ROUNDS, ...BENCHMARK, limitMinutes: 45 },
  ...MAJORS.map((major) => ({
    name: `versions-${major}`,
    command: `make versions PG=${major}`,
    limitMinutes: 120,
    figures: last(VERSION_FIGURES),
  })),
  {
    command: "make foreign-suites",
    limitMinutes: 120,
    figures: last("django sqlalchemy prisma differences"),
  },
  { command: "make infra-test", limitMinutes: 120, figures: TESTS },
  { command: "make install-test", limitMinutes: 45, figures: TESTS },
  { command: "make load-smoke", limitMinutes: 60, figures: SMOKE },
  { command: "make bench-gateway", figures: GATEWAY, ...BENCHMARK, limitMinutes: 60 },
  { command: "make bench-tracker", figures: bars, ...BENCHMARK },
  { command: "make bench-capacity", figures: CAPACITY, ...BENCHMARK, limitMinutes: 60 },
  { command: "make bench-pgwire", figures: PGWIRE, ...BENCHMARK, limitMinutes: 120 },
  { command: "make bench-sdk", figures: SDK, ...BENCHMARK, limitMinutes: 60 },
  { command: "make bench-telemetry", figures: bars, ...BENCHMARK },
  { command: "make bench-overload", figures: OVERLOAD, ...BENCHMARK },
  { command: "make experiments QUICK=1", figures: EXPERIMENTS, ...BENCHMARK, limitMinutes: 60 },
].map((stage) => {
  const named = { name: stage.command.split(" ")[1] ?? "", ...stage };
  return { ...named, unread: unreadBy(named.name) };
});

/** `chaos-5` names a stage, `soak` all whose names begin with it and a dash, nothing all. */
export function chosen(stages: readonly Stage[], only: string): readonly Stage[] {
  const names = only.split(",").filter((name) => name !== "");
  const unknown = names.filter((name) => !stages.some((stage) => beginsWith(stage.name, name)));
  if (unknown.length > 0)
    throw new Error(
      `there is no stage ${unknown.join(", ")}: ONLY takes one or more of ${stages.map(({ name }) => name).join(",")}`,
    );
  return names.length === 0
    ? stages
    : stages.filter((stage) => names.some((name) => beginsWith(stage.name, name)));
}
