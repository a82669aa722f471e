// Goal: nothing of a response leaves before everything that its request has committed or read is durable, in each framework.
// Method: one application on the real frameworks, against a scripted service that says when a mark rises.
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { setImmediate as turn, setTimeout as pause } from "node:timers/promises";
import { type FakeServer, type LiveScript, token } from "@highwater/conformance/fake";
import { type Highwater, sql } from "../../src/index.ts";
import { type GateOptions, type GateState, OutputGate } from "../../src/gate/index.ts";
import { client, FAILOVER, service, streaming } from "../client-support.ts";
import { ask, askSlowly, HOSTS, NODE_HOSTS, type Reply, type Routes } from "./hosts.ts";

const statement = sql`SELECT 1`;
const SECRET = { "x-secret": "1", "set-cookie": "secret=1", location: "/secret" };
/** Long enough that something which is not held would have left. */
const LEAVES_MS = 60;

interface Stage {
  readonly fake: FakeServer;
  readonly hw: Highwater;
  readonly gate: OutputGate;
}

async function stage(
  context: TestContext,
  script: LiveScript = {},
  options: GateOptions = {},
): Promise<Stage> {
  const fake = await service(context, script);
  const hw = client(context, [fake]);
  return { fake, hw, gate: new OutputGate(hw, { timeoutMs: 20_000, ...options }) };
}

/** Everything up to the offset is durable. */
const durable = (fake: FakeServer, offset: number, epoch = 1): void => {
  fake.mark({ epoch, levels: { region: offset } });
};

async function isHeld(answer: Promise<unknown>): Promise<boolean> {
  return Promise.race([answer.then(() => false), pause(LEAVES_MS, true)]);
}

const done = (body = "done"): Reply => ({ status: 201, headers: SECRET, body });

for (const [name, serve] of Object.entries(HOSTS))
  describe(name, () => {
    it("holds a response until its commit is durable, and sends it whole", async (context) => {
      const { fake, hw, gate } = await stage(context);
      const routes: Routes = {
        write: async () => {
          await hw.transaction(statement);
          return done();
        },
      };
      const url = await serve(context, gate, routes);
      const answer = ask(`${url}/write`);
      await streaming(fake);
      assert.ok(await isHeld(answer));
      durable(fake, 10);
      const response = await answer;
      assert.equal(response.status, 201);
      assert.equal(response.headers.get("x-secret"), "1");
      assert.equal(response.headers.get("set-cookie"), "secret=1");
      assert.equal(await response.text(), "done");
    });

    it("answers 202 with the state and a receipt, and nothing else, when the time is over", async (context) => {
      const headers = { "access-control-allow-origin": "*" };
      const { fake, hw, gate } = await stage(context, {}, { timeoutMs: 30, headers });
      const routes: Routes = {
        write: async () => {
          await hw.transaction(statement, { readOnly: true });
          return done();
        },
      };
      const url = await serve(context, gate, routes);
      const response = await ask(`${url}/write`);
      assert.equal(response.status, 202);
      assert.deepEqual(
        Object.keys(SECRET).map((each) => response.headers.get(each)),
        [null, null, null],
      );
      assert.equal(response.headers.get("access-control-allow-origin"), "*");
      const body = (await response.json()) as { state: string; receipt: string };
      assert.deepEqual(Object.keys(body), ["state", "receipt"]);
      assert.equal(body.state, "pending");
      const states = [];
      for (const each of ["pending", "durable", "lost", "expired"]) {
        fake.follow({ verdicts: { ok: { each } } });
        const { status, body: now } = await gate.status(body.receipt);
        states.push([status, now.state]);
      }
      assert.deepEqual(states, [
        [202, "pending"],
        [200, "durable"],
        [409, "lost"],
        [404, "unknown"],
      ]);
    });

    it("answers 409 when what it has read is lost", async (context) => {
      const script = { transactions: { ok: { offset: 70 } }, verdicts: { ok: { each: "lost" } } } as const;
      const { fake, hw, gate } = await stage(context, script);
      const routes: Routes = {
        read: async () => {
          await hw.transaction(statement, { readOnly: true });
          return done();
        },
      };
      const url = await serve(context, gate, routes);
      const answer = ask(`${url}/read`);
      await streaming(fake);
      fake.epochs(FAILOVER);
      const response = await answer;
      assert.equal(response.status, 409);
      assert.equal(response.headers.get("x-secret"), null);
      const { state, redo } = (await response.json()) as GateState;
      assert.deepEqual([state, redo], ["lost", "caller"]);
    });

    it("says that the service does it again if that is so of any that is lost", async (context) => {
      const lost = { 70: "lost", 80: { verdict: "lost", redo: "service" } } as const;
      const { fake, hw, gate } = await stage(context, { verdicts: { ok: { byOffset: lost } } });
      const routes: Routes = {
        write: async () => {
          for (const offset of [70, 80]) {
            fake.follow({ transactions: { ok: { offset } } });
            await hw.transaction(statement);
          }
          return done();
        },
      };
      const url = await serve(context, gate, routes);
      const answer = ask(`${url}/write`);
      await streaming(fake);
      fake.epochs(FAILOVER);
      const { state, redo, receipt } = (await (await answer).json()) as GateState;
      assert.deepEqual([state, redo], ["lost", "service"]);
      const { status, body } = await gate.status(receipt);
      assert.deepEqual([status, body.redo], [409, "service"]);
    });

    it("holds errors, and waits for what a refusal rests on", async (context) => {
      const evidence = {
        ...{ state: "committed", token: token(1, 30) },
        position: { epoch: "00000000-0000-4000-8000-000000000001", offset: "30" },
      };
      const refused = { problem: "constraint_violation", sqlstate: "23505", evidence };
      const { fake, hw, gate } = await stage(context, { transactions: ["ok", refused] });
      const routes: Routes = {
        fail: async () => {
          await hw.transaction(statement);
          throw new Error("there is such an order");
        },
        refuse: async () => {
          await hw.transaction(statement).catch(() => undefined);
          return { status: 409, body: "the name is taken" };
        },
      };
      const url = await serve(context, gate, routes);
      const failed = ask(`${url}/fail`);
      await streaming(fake);
      assert.ok(await isHeld(failed));
      const refusal = ask(`${url}/refuse`);
      durable(fake, 10);
      const answer = await failed;
      assert.deepEqual([answer.status, await answer.text()], [500, "there is such an order"]);
      assert.ok(await isHeld(refusal));
      durable(fake, 30);
      assert.equal(await (await refusal).text(), "the name is taken");
    });

    it("holds each chunk of a stream, and cuts it past its bound", async (context) => {
      const { fake, hw, gate } = await stage(context, {}, { timeoutMs: 400 });
      const routes: Routes = {
        stream: async () => ({
          status: 200,
          body: (async function* () {
            for (const chunk of ["one", "two", "three"]) {
              await hw.transaction(statement);
              yield chunk;
            }
          })(),
        }),
      };
      const url = await serve(context, gate, routes);
      const answer = ask(`${url}/stream`);
      await streaming(fake);
      durable(fake, 10);
      const response = await answer;
      assert.equal(response.status, 200);
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      assert.equal((await reader?.read())?.value, "one");
      const second = reader?.read();
      assert.ok(await isHeld(second as Promise<unknown>));
      durable(fake, 20);
      assert.equal((await second)?.value, "two");
      await assert.rejects(reader?.read() as Promise<unknown>);
    });

    it("rolls back what the handler left open, and waits for what that has read", async (context) => {
      const marks = { epoch: 1, levels: {} };
      const { fake, hw, gate } = await stage(context, { begin: { ok: { marks } } });
      const routes: Routes = {
        open: async () => {
          const tx = await hw.begin();
          const { rows } = await tx.query(sql`SELECT 1`);
          return done(JSON.stringify(rows));
        },
      };
      const url = await serve(context, gate, routes);
      const answer = ask(`${url}/open`);
      await streaming(fake);
      assert.deepEqual(
        fake.calls.map(({ route }) => route).filter((route) => route !== "batches"),
        ["begin", "rollback", "transactions"],
      );
      assert.ok(await isHeld(answer));
      durable(fake, 10);
      assert.equal((await answer).status, 201);
    });

    it("does not say what an aborted transaction has read in an epoch that is over", async (context) => {
      const script = { begin: { ok: { marks: { epoch: 1, levels: {} } } } } as const;
      const { fake, hw, gate } = await stage(context, {
        ...script,
        transactions: { ok: { epoch: 2, offset: 5 } },
      });
      const routes: Routes = {
        body: async () => {
          const read = hw.transact(async (tx) => {
            await tx.query(statement);
            throw new Error("there is such an order");
          });
          return done(await read.catch((error: unknown) => (error as Error).message));
        },
      };
      const url = await serve(context, gate, routes);
      const answer = ask(`${url}/body`);
      await streaming(fake);
      durable(fake, 100, 2);
      const response = await answer;
      assert.equal(response.status, 202);
      assert.equal(((await response.json()) as { state: string }).state, "unknown");
    });

    it("lets a route pass, and waits for tokens of others", async (context) => {
      const { fake, hw, gate } = await stage(context);
      const routes: Routes = {
        pass: async () => {
          await hw.transaction(statement);
          gate.bypass();
          return done();
        },
        other: async () => {
          gate.hold(Promise.resolve(token(1, 50)));
          return done();
        },
        nothing: async () => done(),
      };
      const url = await serve(context, gate, routes);
      assert.equal(await (await ask(`${url}/pass`)).text(), "done");
      assert.equal(await (await ask(`${url}/nothing`)).text(), "done");
      const answer = ask(`${url}/other`);
      await streaming(fake);
      durable(fake, 49);
      assert.ok(await isHeld(answer));
      durable(fake, 50);
      assert.equal((await answer).status, 201);
    });

    it("keeps the floors of concurrent requests apart", async (context) => {
      const { fake, hw, gate } = await stage(context, {}, { timeoutMs: 20_000 });
      const routes: Routes = {
        write: async () => {
          const { position } = await hw.session().transaction(statement);
          await turn();
          return { status: 200, body: position.offset };
        },
      };
      const url = await serve(context, gate, routes);
      let mark = 0;
      const answers = Array.from({ length: 20 }, async () => {
        const response = await ask(`${url}/write`);
        const offset = Number(await response.text());
        assert.ok(offset <= mark, `${String(offset)} left at the mark ${String(mark)}`);
      });
      await fake.until(({ transactions, openStreams }) => transactions === 20 && openStreams > 0);
      while (mark < 200) {
        mark += 10;
        durable(fake, mark);
        await turn();
      }
      await Promise.all(answers);
    });
  });

for (const [name, serve] of Object.entries(NODE_HOSTS))
  describe(`${name}, by events of the request`, () => {
    const ways: [path: string, type: string, status: number][] = [
      ["raw/end", "application/octet-stream", 201],
      // The body is no JSON: the handler of errors answers.
      ...(name === "plain" ? [] : [["badBody", "application/json", 500] as [string, string, number]]),
    ];
    for (const [path, type, status] of ways)
      it(`holds a response that an event of the body begins: ${path}`, async (context) => {
        const { fake, hw, gate } = await stage(context);
        const route = async (): Promise<Reply> => {
          await hw.transaction(statement);
          return { status: 201, body: "done" };
        };
        const url = await serve(context, gate, { end: route, badBody: route });
        const answer = askSlowly(`${url}/${path}`, type);
        await fake.until(({ transactions }) => transactions === 1);
        assert.ok(await isHeld(answer));
        await streaming(fake);
        durable(fake, 10);
        assert.deepEqual(await answer, { status, body: "done" });
      });
  });

it("a client has one gate", async (context) => {
  const { hw } = await stage(context);
  assert.throws(() => new OutputGate(hw), /has an output gate/);
});
