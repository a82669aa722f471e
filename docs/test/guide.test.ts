// Goal: every program of the guide and of the READMEs does what its page says, in both languages, and is typed right.
// Method: docs/test/page.ts says how pages become programs. All of them run at the same time on one real system of three regions,
// and share its faults, which are real. `ONLY=sessions` runs the pages whose names match.
import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Highwater, sql } from "@highwater/sdk";
import { Site } from "@highwater/conformance/site";
import { Faults } from "./faults.ts";
import {
  isPrinted,
  type Language,
  LANGUAGES,
  OwnTables,
  type Page,
  printedCode,
  readPage,
  runnableCode,
} from "./page.ts";
import { Workshop } from "./programs.ts";
import { readReadmes } from "./readmes.ts";
import { Stage } from "./stage.ts";

const GUIDE = new URL("../guide/", import.meta.url);
const POLL_MS = 100;
const { ONLY = "" } = process.env;
/** Programs of these need a library or a second system, and tests of their own run them beside it. */
const ADAPTERS = [
  "drizzle.md",
  "enlist.md",
  "kysely.md",
  "postgres-wire.md",
  "several-stores.md",
  "sqlalchemy.md",
];

const guide = await readGuide();
const pages = [...guide, ...(await readReadmes())].filter(({ name }) => new RegExp(ONLY).test(name));
const runs = new Map<Page, Promise<string[]>>();
const ends = new AsyncDisposableStack();
let workshop: Workshop;

async function readGuide(): Promise<Page[]> {
  const names = (await readdir(GUIDE)).filter((name) => name.endsWith(".md") && !ADAPTERS.includes(name));
  const all = await Promise.all(
    names.sort().map(async (name) => {
      const markdown = await readFile(new URL(name, GUIDE), "utf8");
      return /^```(ts|python)$/m.test(markdown) ? [readPage(name.replace(".md", ""), markdown)] : [];
    }),
  );
  return all.flat();
}

before(async () => {
  workshop = ends.use(await Workshop.open());
  const env = { TRACKER_WEBHOOK_ALLOW: "127.0.0.1" };
  const site = ends.use(await Site.start(env));
  const faults = ends.use(new Faults(site));
  const programs = pages.flatMap((page) => page.languages.map((language) => nameOf(page, language)));
  const stage = ends.use(new Stage(faults.all, programs));
  const address = await stage.open();
  const { endpoints } = await site.describe();
  const reservePort = (): Promise<number> => site.system.cluster.reservePort();
  await using hw = new Highwater({ endpoints });
  const setup = pages.flatMap((page) =>
    page.languages.flatMap((language) => new OwnTables(page, language).apply(page.setup).split(";")),
  );
  const statements = setup.filter((text) => text.trim() !== "").map((text) => sql.raw(text));
  await hw.transaction(statements, { ack: "durable", level: "global", maxWaitMs: 60_000, timeoutMs: 90_000 });
  await webhooksAreOpen(endpoints.map(({ tracker }) => tracker));
  for (const page of pages) {
    const run = runPage(page, { stage, address, endpoints, reservePort }).finally(() => {
      for (const language of page.languages) stage.leave(nameOf(page, language));
    });
    // The page's own test reports it.
    run.catch(() => undefined);
    runs.set(page, run);
  }
});

after(() => ends.disposeAsync());

/** Trackers open the queue of webhooks a little after they have begun to serve. */
async function webhooksAreOpen(trackers: readonly string[]): Promise<void> {
  for (const tracker of trackers)
    while ((await fetch(`${tracker}/v1/webhooks`)).status === 503) await pause(POLL_MS);
}

function nameOf({ name }: Page, language: Language): string {
  return `${name}.${language}`;
}

type PageContext = Readonly<{
  stage: Stage;
  address: string;
  endpoints: Awaited<ReturnType<Site["describe"]>>["endpoints"];
  /** For a program that will listen there. */
  reservePort: () => Promise<number>;
}>;

/** Runs one scene after the other, in both languages at the same time. Resolves with what is not as the page says. */
async function runPage(
  page: Page,
  { stage, address, endpoints, reservePort }: PageContext,
): Promise<string[]> {
  for (const [at, scene] of page.scenes.entries()) {
    const faults = await Promise.all(
      page.languages.map(async (language, order) => {
        const home = page.languages[(order + at) % page.languages.length] ?? language;
        const tables = new OwnTables(page, home);
        const name = nameOf(page, language);
        // On a busy machine a client of several regions takes slowness for a failure, sends again, and finds that its first copy
        // has committed: then there are no rows. Where no region fails, it gets the event of one.
        const near = hasFaults(page) ? endpoints : endpoints.slice(0, 1);
        const addresses = {
          endpoints: near,
          port: await reservePort(),
          stage: `${address}/${encodeURIComponent(name)}`,
        };
        const code = tables.apply(runnableCode(language, scene.parts[language], addresses));
        const room = await workshop.room(nameOf(page, home));
        const { status, output, errors } = await workshop.run(language, room, code, `program${String(at)}`);
        const printed = tables.undo(output);
        if (status === 0 && isPrinted(scene.prints, printed)) {
          if (at === page.scenes.length - 1) stage.leave(name);
          return [];
        }
        stage.leave(name);
        return [
          `${name}, process ${String(at)}, status ${String(status)}:\n${printed}${errors}\nexpected:\n${scene.prints}`,
        ];
      }),
    );
    if (faults.flat().length > 0) return faults.flat();
  }
  return [];
}

function hasFaults({ scenes }: Page): boolean {
  return scenes.some(({ parts }) =>
    Object.values(parts).some((all) => all.some(({ kind }) => kind === "fault")),
  );
}

for (const page of pages) {
  test(`${page.name}: it runs`, async () => {
    assert.deepEqual(await runs.get(page), []);
  });
}

for (const language of LANGUAGES) {
  test(`types of the guide: ${language}`, async () => {
    const files: string[] = [];
    for (const page of guide)
      for (const [at, scene] of page.scenes.entries()) {
        const file = `${page.name.replaceAll("-", "_")}_${String(at)}.${language === "ts" ? "ts" : "py"}`;
        await writeFile(join(workshop.folder, file), printedCode(scene.parts[language]));
        files.push(file);
      }
    const check = language === "ts" ? workshop.checkTypeScript(files) : workshop.checkPython(files);
    assert.equal(await check, "");
  });
}

test("every page of the guide has both languages, and says what they print", () => {
  for (const { name, scenes } of guide)
    for (const { parts, prints } of scenes) {
      for (const language of LANGUAGES)
        assert.ok(
          parts[language].some(({ kind }) => kind === "code"),
          `${name} has a program in ${language}`,
        );
      assert.notEqual(prints, "", `${name} says what its programs print`);
    }
});
