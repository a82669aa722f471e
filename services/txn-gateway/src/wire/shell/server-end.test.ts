// Goal: a session stops counting once, when the server has ended it, and one that may not go on is
// ended there. Method: a socket that only a test moves.
import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { type Socket } from "node:net";
import { test } from "node:test";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { ServerEnd } from "./server-end.ts";

class FakeSocket extends EventEmitter {
  destroyed = false;
  isEnded = false;
  end(): void {
    this.isEnded = true;
  }
  resume(): void {
    // Nothing is kept back.
  }
  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.emit("close");
  }
}

function make(terminate: () => Promise<void> = () => Promise.resolve()) {
  const clock = new FakeClock();
  const socket = new FakeSocket();
  const seen = { over: 0, terminated: 0, failed: 0 };
  const end = new ServerEnd({
    server: socket as unknown as Socket,
    terminate: () => {
      seen.terminated++;
      return terminate();
    },
    after: (ms, callback) => clock.after(ms, callback),
    onOver: () => seen.over++,
    onFailed: () => seen.failed++,
  });
  return { clock, socket, seen, end };
}

test("of a client that has left it counts until the server closes, and what it runs goes on", async () => {
  const { socket, seen, end } = make();
  end.ended("left");
  socket.emit("data", Buffer.alloc(1_000));
  await settle();
  assert.deepEqual([seen.over, socket.isEnded, socket.destroyed], [0, true, false]);
  socket.destroy();
  end.cut();
  await settle();
  assert.deepEqual(seen, { over: 1, terminated: 0, failed: 0 });
});

test("that the server had closed before counts no more", () => {
  const { socket, seen, end } = make();
  socket.destroy();
  end.ended("left");
  assert.deepEqual(seen, { over: 1, terminated: 0, failed: 0 });
});

test("that sends on and on to a client that has left is ended at the server", async () => {
  const { socket, seen, end } = make();
  end.ended("left");
  for (let count = 0; count < 3; count++) socket.emit("data", Buffer.alloc(600_000));
  await settle();
  assert.deepEqual([seen, socket.destroyed], [{ over: 1, terminated: 1, failed: 0 }, true]);
});

test("that may not go on is ended at the server, also if that cannot be asked at once", async () => {
  let failures = 2;
  const { clock, seen, end } = make(() =>
    failures-- > 0 ? Promise.reject(new Error("not now")) : Promise.resolve(),
  );
  end.ended("cut");
  await settle();
  assert.deepEqual(seen, { over: 0, terminated: 1, failed: 0 });
  await clock.advance(10_000);
  assert.deepEqual(seen, { over: 1, terminated: 3, failed: 0 });
});

test("on a server that does not answer counts no more in the end, and that is said", async () => {
  const { clock, seen, end } = make(() => Promise.reject(new Error("gone")));
  end.ended("cut");
  await clock.advance(60_000);
  assert.deepEqual(seen, { over: 1, terminated: 5, failed: 1 });
});

test("whose server is lost is not asked about", () => {
  const { socket, seen, end } = make();
  end.ended("lost");
  assert.deepEqual([seen, socket.destroyed], [{ over: 1, terminated: 0, failed: 0 }, true]);
});
