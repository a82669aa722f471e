// Goal: a Prometheus starts wherever the tests run, scrapes, evaluates rules, answers queries, and
// leaves nothing behind. Without a Prometheus, the message says why. Method: a real one, and a
// service of three lines.
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { DevPrometheus, findPrograms, promtool, whyNoPrometheus } from "../src/prometheus/index.ts";

const skip = whyNoPrometheus();

async function makeFolder(context: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "highwater-prometheus-test-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A service whose only metric grows with each scrape. */
async function serve(context: TestContext): Promise<string> {
  let scrapes = 0;
  const server = createServer((_, response) => {
    response.setHeader("content-type", "text/plain; version=0.0.4");
    response.end(`# TYPE scrapes_total counter\nscrapes_total ${String(++scrapes)}\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  context.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

test(
  "it scrapes, records, alerts and answers, and leaves neither process nor file",
  { skip },
  async (context) => {
    const folder = await makeFolder(context);
    const rules = join(folder, "rules.yml");
    const group = {
      name: "test",
      rules: [
        { record: "job:scrapes:last", expr: "sum by (job) (scrapes_total)" },
        { alert: "Scraped", expr: "scrapes_total > 0" },
      ],
    };
    await writeFile(rules, JSON.stringify({ groups: [group] }));
    const before = process.env["TMPDIR"];
    context.after(() => {
      if (before === undefined) delete process.env["TMPDIR"];
      else process.env["TMPDIR"] = before;
    });
    const own = join(folder, "own");
    await mkdir(own);
    process.env["TMPDIR"] = own;
    {
      const target = { job: "three-lines", url: await serve(context), labels: { region: "here" } };
      await using prometheus = await DevPrometheus.start({
        ...{ targets: [target], scrapeMs: 100, evaluateMs: 100, rules: [rules] },
      });
      await prometheus.untilScraped();
      const [series] = await prometheus.eventually("scrapes_total > 2");
      assert.equal(series?.labels["region"], "here");
      assert.equal(series.labels["job"], "three-lines");
      await prometheus.eventually("job:scrapes:last > 0");
      await prometheus.eventually('ALERTS{alertname="Scraped", alertstate="firing"}');
      const states = await prometheus.rules();
      assert.deepEqual(
        states.map(({ name, health }) => [name, health]),
        [
          ["job:scrapes:last", "ok"],
          ["Scraped", "ok"],
        ],
      );
      const [at] = series.points[0] ?? [0];
      const range = { fromSeconds: at - 1, toSeconds: at, stepSeconds: 0.25 };
      const [ranged] = await prometheus.queryRange("scrapes_total", range);
      assert.ok((ranged?.points.length ?? 0) > 0);
      assert.deepEqual((await prometheus.query("1 / vector(0)"))[0]?.points[0]?.[1], Infinity);
      await assert.rejects(prometheus.query("sum("), /sum\(: .*parse error/);
      assert.ok((await readdir(own)).length > 0, "all that it writes is there");
    }
    assert.deepEqual(await readdir(own), []);
  },
);

test("a configuration that it refuses is reported in its own words", { skip }, async (context) => {
  const rules = join(await makeFolder(context), "rules.yml");
  await writeFile(
    rules,
    JSON.stringify({ groups: [{ name: "bad", rules: [{ record: "x", expr: "sum(" }] }] }),
  );
  await assert.rejects(DevPrometheus.start({ targets: [], rules: [rules] }), /has ended.*parse error/s);
  const checked = await promtool(["check", "rules", rules]);
  assert.equal(checked.code, 1);
  assert.match(checked.output, /parse error/);
});

test("which programs are taken, and why there are none", () => {
  const machine = (env: Record<string, string>, ...files: string[]): Parameters<typeof findPrograms>[0] => ({
    ...{ env, isProgram: (path) => files.includes(path) },
  });
  const both = (folder: string): string[] => [`${folder}/prometheus`, `${folder}/promtool`];
  assert.deepEqual(findPrograms(machine({ PATH: "/a:/b" }, "/a/prometheus", ...both("/b"))), {
    ...{ prometheus: "/b/prometheus", promtool: "/b/promtool" },
  });
  const named = { HIGHWATER_PROMETHEUS_FOLDER: "/mine", PATH: "/b" };
  assert.match(
    String(whyNoPrometheus(machine(named, ...both("/b")))),
    /HIGHWATER_PROMETHEUS_FOLDER is \/mine/,
  );
  assert.equal(whyNoPrometheus(machine(named, ...both("/mine"))), false);
  assert.match(String(whyNoPrometheus(machine({}))), /^no Prometheus: make \.tools\/prometheus/);
});
