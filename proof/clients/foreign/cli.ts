// Runs the suites with which Django and SQLAlchemy test PostgreSQL, and Prisma's client, on
// PostgreSQL directly and through the wire, and compares each test. A test that ends otherwise
// through the wire is a difference. Usage: node proof/clients/foreign/cli.ts [--only
// django,sqlalchemy,prisma]. Exit code 1: there is a difference without a reason. Its last line is
// JSON.
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readOptions, TemporaryFolder } from "@highwater/lab-tools/process";
import pg from "pg";
import { readTranscript, type Transcript } from "../src/compare.ts";
import { runProgram, transcriptOf } from "../src/program.ts";
import { Rig, type Suite } from "../src/rig.ts";

const HERE = import.meta.dirname;
const TOOLS = fileURLToPath(new URL("../../../.tools/foreign", import.meta.url));
const PYTHON = join(TOOLS, "bin", "python");
const LIMIT_MS = 3_600_000;
/** The least number of tests of each suite. Fewer would mean that most of it did not run. */
const TESTS_MIN: Readonly<Record<string, number>> = { django: 2_000, sqlalchemy: 1_000, prisma: 15 };

/** The part of Django's suite that uses the database most, in every way that Django can. */
const DJANGO_APPS =
  "backends transactions transaction_hooks basic queries expressions aggregation annotations lookup " +
  "bulk_create get_or_create delete update select_for_update schema model_fields constraints introspection " +
  "db_functions prefetch_related postgres_tests raw_query indexes";

/** Test programs exit with an error when a test fails, and some tests fail directly as well. */
async function testsOf(
  command: readonly [string, ...string[]],
  env: Readonly<Record<string, string>>,
  cwd: string,
): Promise<Transcript> {
  const { code, output, errors } = await runProgram(command, { env, cwd, limitMs: LIMIT_MS });
  const transcript = readTranscript(output);
  if (transcript.size === 0)
    throw new Error(`${command.join(" ")} ended with ${String(code)} and ran no tests:\n${errors}`);
  return transcript;
}

const django: Suite = {
  name: "django",
  run: ({ url }) => {
    const source = join(TOOLS, "django");
    const options = ["--settings=highwater_settings", "--parallel=1", "--noinput"];
    return testsOf(
      [PYTHON, "runtests.py", ...options, ...DJANGO_APPS.split(" ")],
      {
        DATABASE_URL: url,
        PYTHONDONTWRITEBYTECODE: "1",
        PYTHONPATH: [join(HERE, "django"), source].join(":"),
      },
      join(source, "tests"),
    );
  },
};

const sqlalchemy: Suite = {
  name: "sqlalchemy",
  run: async ({ url }) => {
    // The suite writes files beside its configuration.
    await using folder = await TemporaryFolder.make("highwater-sqlalchemy-");
    await cp(join(HERE, "sqlalchemy"), folder.path, { recursive: true });
    const options = ["-c", "setup.cfg", "-p", "no:cacheprovider", "--dburi"];
    const address = url.replace("postgresql:", "postgresql+psycopg:");
    return await testsOf(
      [PYTHON, "-m", "pytest", ...options, address, "test_suite.py"],
      { PYTHONDONTWRITEBYTECODE: "1" },
      folder.path,
    );
  },
};

const prisma: Suite = {
  name: "prisma",
  run: ({ url }) => transcriptOf([process.execPath, join(HERE, "prisma", "client.mjs")], url),
};

const { values } = readOptions(import.meta.filename, { options: { only: { type: "string", default: "" } } });
const only = values.only.split(",").filter((name) => name !== "");
const suites = [django, sqlalchemy, prisma].filter(({ name }) => only.length === 0 || only.includes(name));
if (suites.length === 0) throw new Error(`--only ${values.only} names none of django, sqlalchemy, prisma`);

await using rig = await Rig.start();
const home = rig.system.regions[0] ?? "";
// Objects that only a superuser can make and that the suites expect.
await rig.system.cluster.query(home, "CREATE SCHEMA test_schema AUTHORIZATION client");
const template = await rig.system.cluster.connectionString(home, { database: "template1" });
const admin = new pg.Client({ connectionString: template });
await admin.connect();
await admin.query("CREATE EXTENSION bloom");
await admin.end();

const figures: Record<string, number> = {};
let differences = 0;
for (const suite of suites) {
  const compared = await rig.compare(suite);
  const missing = compared.cases < (TESTS_MIN[suite.name] ?? 1);
  figures[suite.name] = compared.cases;
  differences += compared.differences.length + (missing ? 1 : 0);
  console.log(
    `${suite.name}: ${String(compared.cases)} tests, ${String(compared.differences.length)} differences, ` +
      `${String(compared.explained.length)} with a reason${missing ? "; too few tests" : ""}`,
  );
  for (const line of compared.differences) console.log(line);
}
console.log(JSON.stringify({ ...figures, differences }));
process.exitCode = differences === 0 ? 0 : 1;
