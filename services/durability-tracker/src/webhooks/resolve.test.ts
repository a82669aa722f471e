// Goal: a name server that does not answer delays only the look-ups of its own names. Method: two
// name servers on loopback: one is silent, one answers as the test says.
import assert from "node:assert/strict";
import { createSocket, type Socket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import { makeResolve } from "./resolve.ts";

const TYPE_A = 1;
const TYPE_AAAA = 28;
const NO_SIGNAL = new AbortController().signal;
const sockets: Socket[] = [];

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

/** A name server, and the questions it got. `answer`: the bytes of an address; null: silence. */
async function nameServer(
  answer: (type: number) => readonly number[] | null,
): Promise<{ address: string; asked: number[] }> {
  const socket = createSocket("udp4");
  const asked: number[] = [];
  socket.on("message", (query, { port, address }) => {
    const nameEnd = query.indexOf(0, 12) + 1;
    const type = query.readUInt16BE(nameEnd);
    asked.push(type);
    const data = answer(type);
    if (data !== null) socket.send(reply(query.subarray(0, nameEnd + 4), type, data), port, address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  sockets.push(socket);
  return { address: `127.0.0.1:${String(socket.address().port)}`, asked };
}

/** RFC 1035, section 4.1: repeats the question, with at most one answer. */
function reply(question: Buffer, type: number, data: readonly number[]): Buffer {
  const head = Buffer.from(question);
  head.writeUInt16BE(0x8180, 2);
  head.writeUInt16BE(data.length === 0 ? 0 : 1, 6);
  head.writeUInt16BE(0, 10);
  if (data.length === 0) return head;
  const record = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length, ...data]);
  return Buffer.concat([head, record]);
}

test("names that no server answers for leave the threads of the process free, and are given up", async () => {
  const silent = await nameServer(() => null);
  // They wait for longer than the look-up takes on a busy machine.
  const resolve = makeResolve({ servers: [silent.address], timeoutMs: 500 });
  const asking = Array.from({ length: 16 }, (_, at) => resolve(`host${String(at)}.example`, NO_SIGNAL));
  let isOver = false;
  const outcomes = Promise.allSettled(asking).finally(() => (isOver = true));
  while (silent.asked.length < 16) await new Promise((tick) => setImmediate(tick));
  // This look-up takes a thread of the pool, as those of database hosts do.
  await lookup("localhost", { all: true });
  assert.equal(isOver, false, "all of them still wait");
  for (const outcome of await outcomes) {
    assert.ok(outcome.status === "rejected");
    assert.equal((outcome.reason as NodeJS.ErrnoException).code, "ETIMEOUT");
  }
});

test("a signal ends the asking", async () => {
  const silent = await nameServer(() => null);
  const gone = new AbortController();
  const resolve = makeResolve({ servers: [silent.address], timeoutMs: 60_000 });
  const asking = resolve("host.example", gone.signal);
  while (silent.asked.length === 0) await new Promise((tick) => setImmediate(tick));
  gone.abort();
  await assert.rejects(asking, { code: "ECANCELLED" });
});

test("all addresses of both families are found, and what has only one", async () => {
  const v6 = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
  const both = await nameServer((type) => (type === TYPE_A ? [192, 0, 2, 7] : v6));
  assert.deepEqual(await makeResolve({ servers: [both.address] })("host.example", NO_SIGNAL), [
    { address: "192.0.2.7", family: 4 },
    { address: "2001:db8::7", family: 6 },
  ]);
  assert.deepEqual(
    both.asked.toSorted((a, b) => a - b),
    [TYPE_A, TYPE_AAAA],
  );
  const one = await nameServer((type) => (type === TYPE_A ? [192, 0, 2, 7] : []));
  assert.deepEqual(await makeResolve({ servers: [one.address] })("host.example", NO_SIGNAL), [
    { address: "192.0.2.7", family: 4 },
  ]);
  const none = await nameServer(() => []);
  await assert.rejects(makeResolve({ servers: [none.address] })("host.example", NO_SIGNAL), {
    code: "ENODATA",
  });
});

test("the hosts file comes first", async () => {
  const folder = await mkdtemp(join(tmpdir(), "highwater-hosts-"));
  const hostsFile = join(folder, "hosts");
  await writeFile(hostsFile, "# hook 192.0.2.1\n192.0.2.2\tother Hook # ours\n2001:db8::2 hook\n");
  const silent = await nameServer(() => null);
  const resolve = makeResolve({ servers: [silent.address], hostsFile });
  assert.deepEqual(await resolve("hook", NO_SIGNAL), [
    { address: "192.0.2.2", family: 4 },
    { address: "2001:db8::2", family: 6 },
  ]);
  assert.equal(silent.asked.length, 0);
  await rm(folder, { recursive: true });
});
