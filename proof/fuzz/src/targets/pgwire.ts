// The gateway's PostgreSQL wire against PostgreSQL: both get one script of messages. Their tables
// must be equal, and so must their answers, except for the contract's additions.
import { difference, isRefusedByType, isServerFault, play } from "../../../wire/compare.ts";
import { generate } from "../../../wire/generate.ts";
import { breaksOff, readScript } from "../../../wire/script.ts";
import { placeOf } from "../../../wire/session.ts";
import { Stage } from "../../../wire/stage.ts";
import { VOCABULARY } from "../../../wire/vocabulary.ts";
import { type Services, type Target } from "../target.ts";

const simple = (...texts: string[]): string => texts.map((sql) => JSON.stringify(["Q", sql])).join("\n");
const run = (sql: string, ...end: string[]): string =>
  [["P", "", sql], ["B", "", "", []], ["D", "P", ""], ["E", "", 0], ...end.map((type) => [type])]
    .map((line) => JSON.stringify(line))
    .join("\n");

const SEEDS = [
  simple("SELECT 1"),
  simple("BEGIN", "INSERT INTO fz VALUES (10)", "COMMIT"),
  simple("INSERT INTO fz VALUES (10); COMMIT; BEGIN", "COMMIT"),
  [run("BEGIN"), run("INSERT INTO fz VALUES (10)"), run("COMMIT", "H"), run("SELECT 1", "S")].join("\n"),
  [run("-- nothing"), run("COMMIT", "S")].join("\n"),
  [run("INSERT INTO fz VALUES (10)", "S"), run("INSERT INTO fz VALUES (10)", "S")].join("\n"),
  [simple("COPY fz FROM STDIN"), '["d","30\\tx\\n"]', '["c"]', simple("SELECT 1")].join("\n"),
  ['["options","-c highwater.ack=commit"]', simple("COPY fz FROM STDIN", "SELECT 1")].join("\n"),
  [run("COPY fz FROM STDIN"), '["S"]', '["d","30\\tx\\n"]', '["c"]', '["S"]'].join("\n"),
  [
    '["options","-c highwater.ack=commit"]',
    ...[run("COPY fz FROM STDIN", "S"), '["d","30\\tx\\n"]', '["c"]', simple("SELECT 1")],
  ].join("\n"),
  [
    simple("COPY fz FROM STDIN; COPY fz FROM STDIN"),
    ...['["d","30\\tx\\n"]', '["c"]', '["d","31\\tx\\n"]', '["S"]', '["d","32\\tx\\n"]', '["c"]'],
  ].join("\n"),
  // A Query that breaks off.
  [simple("COPY fz FROM STDIN"), '["raw","UQAAAEBTRUxFQ1Q="]'].join("\n"),
  [run("INSERT INTO fz VALUES (10)"), simple("SET application_name = 'x'", "ROLLBACK")].join("\n"),
  '["options","-c a"]',
  ['["F","fz_insert",["90"]]', run("DISCARD ALL", "S")].join("\n"),
  simple("PREPARE c AS SELECT 3", "BEGIN", "EXECUTE c", "COMMIT AND CHAIN", "ROLLBACK"),
  simple("BEGIN", "TRUNCATE fz_child", "PREPARE TRANSACTION 'fz'"),
  [simple("SELECT fz_fail(3)"), '["D","S",""]', '["S"]'].join("\n"),
  simple("LISTEN fz", "NOTIFY fz, 'x'", "CALL fz_commits(30)"),
];

const target = (
  { name, about, sliceRuns }: Pick<Target, "name" | "about" | "sliceRuns">,
  other: (services: Services) => string,
): Target => ({
  name,
  about,
  sliceRuns,
  seeds: SEEDS,
  words: Object.values(VOCABULARY).flat(),
  make: generate,
  needsServices: true,
  // Two sessions, one after another, each with time to end.
  limitMs: 90_000,
  open: async ({ services }) => {
    if (services === null) throw new Error("this target needs services");
    const [direct, gateway] = [placeOf(services.postgres), placeOf(other(services))];
    const stage = await Stage.open(services.postgresAdmin);
    return {
      run: async (input) => {
        const script = readScript(input, stage.functions);
        await stage.reset();
        const expected = await play(direct, script);
        const left = await stage.content();
        await stage.reset();
        const seen = await play(gateway, script);
        if (isServerFault(expected)) return;
        const found = difference(expected, seen);
        const isLate = breaksOff(script) && isRefusedByType(expected, seen);
        if (found !== null && !isLate) throw new Error(found);
        const leftNow = await stage.content();
        if (leftNow !== left) throw new Error(`PostgreSQL's tables have ${left}, the gateway's ${leftNow}`);
      },
      close: () => stage.close(),
    };
  },
});

export const targets: readonly Target[] = [
  target(
    {
      name: "pgwire-twice",
      about:
        "a script of messages gets the same answers of PostgreSQL each time, so that others can be compared with them",
      sliceRuns: 25,
    },
    ({ postgres }) => postgres,
  ),
  target(
    {
      name: "pgwire",
      about:
        "a script of messages gets PostgreSQL's answers from the gateway, and leaves in the tables what it leaves there",
      sliceRuns: 100,
    },
    ({ wire }) => wire,
  ),
];
