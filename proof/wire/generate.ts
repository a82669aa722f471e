// Random scripts: mostly messages as drivers send them, sometimes ones that no driver sends.
import { type Random } from "../fuzz/src/random.ts";
import { COPY_LINES, FUNCTIONS, VOCABULARY } from "./vocabulary.ts";

type Line = readonly unknown[];

const STEPS_MAX = 9;
const STATEMENT_NAMES = ["", "", "s1", "s2"];
const PORTAL_NAMES = ["", "", "p1"];
const PARAMETERS: readonly (readonly (string | null)[])[] = [
  [],
  [],
  ["80"],
  ["81", "x"],
  [null],
  ["not a number"],
];
/** Settings of the wire at the start of a session, which PostgreSQL accepts like its own. */
const OPTIONS = ["-c highwater.ack=commit", "-c highwater.read_ack=durable", "-c highwater.level=disk"];
/** Invalid messages, and beginnings of valid ones. */
const BROKEN = [
  "\0\0\0\0\0",
  "~\0\0\0\x04",
  "Q\0\0\0\x03",
  "Q\0\0\0\x08abcd",
  "Q\0\0\0\x40SELECT",
  "B\0\0\0\x05\0",
  "\x50\xff\xff\xff\xff",
  "S\0\0\0\x09hallo",
];

export function generate(random: Random): Buffer {
  const lines: Line[] = [];
  if (random.chance(0.3)) lines.push(["options", random.pick(OPTIONS)]);
  for (let steps = 1 + random.below(STEPS_MAX); steps > 0; steps--) lines.push(...step(random));
  if (random.chance(0.1)) lines.push(["X"]);
  else if (random.chance(0.1))
    lines.push(["raw", Buffer.from(random.pick(BROKEN), "latin1").toString("base64")]);
  return Buffer.from(lines.map((line) => JSON.stringify(line)).join("\n"));
}

function step(random: Random): Line[] {
  switch (random.below(12)) {
    case 0:
    case 1:
    case 2:
      return [["Q", statement(random)]];
    case 3:
      return [["Q", Array.from({ length: 2 + random.below(3) }, () => statement(random)).join("; ")]];
    case 4:
      return block(random);
    case 5:
    case 6:
      return [...extended(random), ["S"]];
    case 7:
      return pipeline(random);
    case 8:
      return copy(random);
    case 9:
      return [["F", random.pick(FUNCTIONS), random.pick([["1"], ["1", "2"], ["90"], [], [null]])]];
    case 10:
      return [random.pick<Line>([["S"], ["H"], ["c"], ["f", "no copy"], ["d", "1\tx\n"]])];
    default:
      return [anyMessage(random)];
  }
}

function statement(random: Random): string {
  const kind = random.pick([
    "reads",
    "reads",
    "writes",
    "writes",
    "blocks",
    "blocks",
    "session",
    "faults",
    "texts",
    "apart",
  ] as const);
  if (kind === "apart" && random.chance(0.7)) return random.pick(VOCABULARY.writes);
  return random.pick(VOCABULARY[kind]);
}

function block(random: Random): Line[] {
  const inner = Array.from({ length: 1 + random.below(3) }, () =>
    random.pick(random.chance(0.7) ? VOCABULARY.writes : VOCABULARY.reads),
  );
  const end = random.pick([
    "COMMIT",
    "COMMIT",
    "ROLLBACK",
    "COMMIT AND CHAIN",
    "PREPARE TRANSACTION 'fz'",
    "END",
  ]);
  if (random.chance(0.4))
    return ["BEGIN", ...inner, end].flatMap((sql) => [...run(sql, random), ["S"] as Line]);
  return ["BEGIN", ...inner, end].map((sql) => ["Q", sql]);
}

function pipeline(random: Random): Line[] {
  const lines: Line[] = [];
  for (let count = 2 + random.below(4); count > 0; count--) {
    lines.push(...extended(random));
    if (random.chance(0.25)) lines.push(random.chance(0.5) ? ["H"] : ["S"]);
  }
  return [...lines, ["S"]];
}

function extended(random: Random): Line[] {
  return run(random.chance(0.1) ? random.pick(VOCABULARY.copies) : statement(random), random);
}

function run(sql: string, random: Random): Line[] {
  const [name, portal] = [random.pick(STATEMENT_NAMES), random.pick(PORTAL_NAMES)];
  const parameters = sql.includes("$1") ? random.pick(PARAMETERS) : [];
  const lines: Line[] = [["P", name, sql]];
  if (random.chance(0.2)) lines.push(["D", "S", name]);
  lines.push(["B", portal, name, parameters, 0, random.chance(0.15) ? 1 : 0]);
  if (random.chance(0.5)) lines.push(["D", "P", portal]);
  const rowsMax = random.chance(0.2) ? 1 + random.below(3) : 0;
  lines.push(["E", portal, rowsMax]);
  if (rowsMax > 0 && random.chance(0.7)) lines.push(["E", portal, 0]);
  if (name !== "" && random.chance(0.4)) lines.push(["C", "S", name]);
  return lines;
}

function copy(random: Random): Line[] {
  const sql = random.pick([...VOCABULARY.copies, ...VOCABULARY.texts]);
  const lines: Line[] = random.chance(0.6) ? [["Q", sql]] : run(sql, random);
  for (let rows = random.below(4); rows > 0; rows--) {
    lines.push(["d", random.pick(COPY_LINES)]);
    if (random.chance(0.15)) lines.push(["S"]);
  }
  if (random.chance(0.2)) lines.push(random.pick<Line>([["S"], ["H"], ["Q", "SELECT 4"]]));
  lines.push(random.chance(0.75) ? ["c"] : ["f", "changed its mind"]);
  return random.chance(0.5) ? [...lines, ["S"]] : lines;
}

function anyMessage(random: Random): Line {
  const [name, portal] = [random.pick(STATEMENT_NAMES), random.pick(PORTAL_NAMES)];
  return random.pick<Line>([
    ["P", name, statement(random)],
    ["B", portal, name, random.pick(PARAMETERS)],
    ["D", random.pick(["S", "P"]), name],
    ["E", portal, random.below(3)],
    ["C", random.pick(["S", "P"]), random.pick([name, portal])],
  ]);
}
