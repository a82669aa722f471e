// A page of a browser that uses the published package: what its test has it do, one function a step. Each answers with plain data.
import { Highwater, sql, TransactionLostError } from "@highwater/sdk";
import { Highwater as OneShot } from "@highwater/sdk/edge";

const { endpoints, apiKey } = await (await fetch("/settings")).json();
const events = [];
const observe = ({ type }) => {
  events.push(type);
};
const hw = new Highwater({ endpoints, apiKey, observe, totalTimeoutMs: 120_000 });
const atRisk = [];
const reported = [];
hw.onLost(({ id }) => reported.push(id));

const putNote = (text, client = hw) =>
  client.transaction(sql`INSERT INTO note VALUES (${text}) RETURNING text, 9007199254740993 AS large`);
/** What a test can look at of an error. */
const plain = ({ name, code, outcome, constraint }) => ({ name, code, outcome, constraint });
const failureOf = (promise) => promise.then(() => "it did not fail", plain);

globalThis.steps = {
  hasEventSource: () => "EventSource" in globalThis,
  events: () => [...new Set(events)].sort(),

  async commit(text) {
    const tx = await putNote(text);
    const [row] = tx.rows;
    return { row: [row.text, String(row.large)], verdict: (await tx.durable({ timeoutMs: 60_000 })).verdict };
  },

  /** Many at a time, over as many requests as the browser likes, and over few: all wait on the same stream. */
  async commitMany(count) {
    // Of one region: with others to go to, they would take a busy machine's slowness for a failure, and send twice.
    const near = {
      endpoints: endpoints.slice(0, 1),
      apiKey,
      requestTimeoutMs: 60_000,
      totalTimeoutMs: 120_000,
    };
    const [single, shared] = [new Highwater({ ...near, shareRequests: false }), new Highwater(near)];
    const texts = Array.from({ length: count }, (_, index) => String(index));
    const each = await Promise.all(texts.map((text) => putNote(`one ${text}`, single)));
    const together = await Promise.all(texts.map((text) => putNote(`shared ${text}`, shared)));
    const promises = [...each, ...together].map(({ token }) => hw.promise(token));
    const verdicts = await Promise.all(promises.map((promise) => promise.durable({ timeoutMs: 60_000 })));
    await Promise.all([single.close(), shared.close()]);
    return verdicts.map(({ verdict }) => verdict);
  },

  async interactive() {
    const tx = await hw.begin({ isolation: "read committed" });
    await tx.query(sql`INSERT INTO note VALUES ('of several steps')`);
    await tx.query(sql`SAVEPOINT a`);
    const refused = await failureOf(tx.query(sql`INSERT INTO note VALUES ('of several steps')`));
    await tx.query(sql`ROLLBACK TO SAVEPOINT a`);
    const { rows } = await tx.query(sql`SELECT count(*)::int AS n FROM note WHERE text = 'of several steps'`);
    const committed = await tx.commit({ ack: "durable" });
    return { refused, rows, state: committed.state };
  },

  transact: () =>
    hw.transact(async (tx) => (await tx.query(sql`SELECT count(*)::int AS n FROM note`)).rows, {
      ack: "durable",
    }),

  /** With the entry that is made for pages, in a session of its own. */
  async oneShot(text) {
    const client = new OneShot({ endpoints, apiKey });
    const session = client.session();
    await putNote(text, session);
    await session.durable({ timeoutMs: 60_000 });
    const again = await failureOf(putNote(text, session));
    await client.close();
    return again;
  },

  wrongKey: () => failureOf(putNote("never", new Highwater({ endpoints, apiKey: "hwk_wrong" }))),
  write: () =>
    failureOf(putNote("from elsewhere", new Highwater({ endpoints, apiKey, totalTimeoutMs: 1_500 }))),

  /** A wait that goes on while the page does other things. */
  async commitAtRisk() {
    const tx = await putNote("at risk");
    const waited = tx.durable({ timeoutMs: 120_000 }).then(
      ({ verdict }) => verdict,
      (error) =>
        error instanceof TransactionLostError ? { ...plain(error), id: error.transactionId } : plain(error),
    );
    atRisk.push({ id: tx.id, waited });
    return tx.id;
  },
  outcome: async () => ({ waited: await atRisk[0].waited, reported }),

  close: () => hw.close(),
};
