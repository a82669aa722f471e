// Goal: each request stops counting against its caller's limits exactly once, however its answer
// ends; and a stream ends with its credential.
import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { type ServerResponse } from "node:http";
import { beforeEach, test } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { Callers } from "./callers.ts";
import { Admission } from "./identity/admission.ts";
import { ANYBODY } from "./identity/anonymous.ts";
import { FELLOW_SERVICE } from "./identity/internal.ts";
import { authenticationUnavailable, type Principal, unauthenticated } from "./identity/principal.ts";

/** The parts of a response that Callers uses. */
class Response extends EventEmitter {
  readonly req = { headers: {}, socket: { remoteAddress: "192.0.2.1" } };
  destroyed = false;
  writableFinished = false;
  end(): void {
    this.writableFinished = true;
    this.close();
  }
  destroy(): void {
    this.close();
  }
  close(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.emit("close");
  }
}

const PRINCIPAL: Principal = { ...ANYBODY, id: "one", limits: { ...ANYBODY.limits, concurrency: 1 } };
const MINUTE_MS = 60_000;

let clock: FakeClock;
let answer: (isKnownOnly: boolean) => Promise<Principal>;
let change: (id: string) => void;
let refused: string[];
let callers: Callers;

beforeEach(() => {
  clock = new FakeClock();
  answer = () => Promise.resolve(PRINCIPAL);
  refused = [];
  callers = new Callers({
    authenticator: {
      authenticate: (_authorization, isKnownOnly = false) => answer(isKnownOnly),
      watch: (onChanged) => (change = onChanged),
      start: () => undefined,
      stop: () => undefined,
    },
    admission: new Admission({ clock, defaults: { ratePerSecond: null, burst: null, concurrency: null } }),
    clock,
    onRefused: (code) => refused.push(code),
  });
});

const as = (response: Response): ServerResponse => response as unknown as ServerResponse;

test("one in flight leaves when it is answered, and its work is aborted when its client goes away first", async () => {
  const answered = new Response();
  const first = await callers.enter("x", as(answered));
  await assert.rejects(callers.enter("x", as(new Response())), { code: "concurrency_limited" });
  answered.end();
  assert.equal(first.signal?.aborted, false);
  const left = new Response();
  const second = await callers.enter("x", as(left));
  left.destroy();
  assert.equal(second.signal?.aborted, true);
  const gone = new Response();
  gone.destroy();
  assert.equal((await callers.enter("x", as(gone))).signal?.aborted, true);
  await callers.enter("x", as(new Response()));
  assert.deepEqual(refused, ["concurrency_limited"]);
});

test("what came with a request counts like a request, until it ends", async () => {
  answer = () => Promise.resolve({ ...PRINCIPAL, limits: { ...PRINCIPAL.limits, concurrency: 2 } });
  const caller = await callers.enter("x", as(new Response()));
  const leave = callers.also(caller);
  assert.throws(() => callers.also(caller), { code: "concurrency_limited" });
  await assert.rejects(callers.enter("x", as(new Response())), { code: "concurrency_limited" });
  leave();
  callers.also(caller);
  assert.deepEqual(refused, ["concurrency_limited", "concurrency_limited"]);
  const service = { principal: { ...FELLOW_SERVICE, limits: PRINCIPAL.limits } };
  for (let at = 0; at < 3; at++) callers.also(service);
});

test("limits are not for the services themselves", async () => {
  answer = () => Promise.resolve({ ...FELLOW_SERVICE, limits: PRINCIPAL.limits });
  for (let at = 0; at < 5; at++) await callers.enter("x", as(new Response()));
  assert.deepEqual(refused, []);
});

test("streams do not count as in flight", async () => {
  for (let at = 0; at < 5; at++) await callers.enterStream("x", as(new Response()));
  await callers.enter("x", as(new Response()));
});

test("a stream ends when its credential is no longer valid, and not while that is unknown", async () => {
  const response = new Response();
  await callers.enterStream("x", as(response));
  await clock.advance(3 * MINUTE_MS);
  answer = () => Promise.reject(authenticationUnavailable("not now"));
  await clock.advance(3 * MINUTE_MS);
  assert.equal(response.destroyed, false);
  answer = () => Promise.reject(unauthenticated("The key was revoked."));
  await clock.advance(MINUTE_MS);
  assert.equal(response.destroyed, true);
  assert.equal(response.writableFinished, true);
  assert.equal(clock.pendingTimers, 0);
});

test("a stream ends at once when its credential was taken away, and others stay", async () => {
  const [revoked, changed] = [new Response(), new Response()];
  await callers.enterStream("x", as(revoked));
  answer = () => Promise.resolve({ ...PRINCIPAL, id: "two" });
  await callers.enterStream("y", as(changed));
  change("two");
  await settle();
  assert.equal(changed.destroyed, false, "still good");
  answer = () => Promise.reject(unauthenticated("The key was revoked."));
  change("one");
  await settle();
  assert.deepEqual([revoked.destroyed, changed.destroyed], [true, false]);
  changed.destroy();
  assert.equal(clock.pendingTimers, 0);
});

test("a stream or connection ends at once when its credential has got other rights, not for other limits", async () => {
  const began: Principal = { ...PRINCIPAL, owner: 7n, role: "app", scopes: new Set(["read", "write"]) };
  const changes: [boolean, Partial<Principal>][] = [
    [false, { limits: { ...began.limits, concurrency: 9 } }],
    [true, { owner: 8n }],
    [true, { role: "other" }],
    [true, { scopes: new Set(["read"] as const) }],
    [true, { scopes: new Set(["read", "admin"] as const) }],
  ];
  for (const [ends, changed] of changes) {
    answer = () => Promise.resolve(began);
    const response = new Response();
    let isEnded = false;
    await callers.enterStream("x", as(response));
    const { leave } = await callers.enterConnection("x", "192.0.2.1", () => (isEnded = true));
    answer = () => Promise.resolve({ ...began, ...changed });
    change("one");
    await settle();
    assert.deepEqual([response.destroyed, isEnded], [ends, ends], Object.keys(changed).join());
    response.destroy();
    leave();
  }
  assert.equal(clock.pendingTimers, 0);
});

test("after too many refusals, only known credentials are checked from an address, for a while", async () => {
  answer = (isKnownOnly) =>
    isKnownOnly ? Promise.resolve(PRINCIPAL) : Promise.reject(unauthenticated("no such key"));
  const enter = async (address: string): Promise<string> => {
    const response = new Response();
    response.req.socket.remoteAddress = address;
    return callers.enter("x", as(response)).then(
      () => {
        response.end();
        return "known only";
      },
      (cause: unknown) => (cause as HighwaterError).code,
    );
  };
  for (let at = 0; at < 100; at++) assert.equal(await enter("2001:db8::1"), "unauthenticated", String(at));
  assert.equal(await enter("2001:db8::2"), "known only", "of the same network");
  assert.equal(await enter("2001:db8:1::1"), "unauthenticated", "another one");
  assert.equal(await enter("192.0.2.9"), "unauthenticated");
  await clock.advance(1_000);
  assert.equal(await enter("2001:db8::1"), "unauthenticated", "ten more each second");
});

test("nothing looks after a stream that has gone", async () => {
  const response = new Response();
  await callers.enterStream("x", as(response));
  assert.equal(clock.pendingTimers, 1);
  response.destroy();
  assert.equal(clock.pendingTimers, 0);
  // Disconnected while its credential is being checked again.
  const second = new Response();
  await callers.enterStream("x", as(second));
  const late = Promise.withResolvers<Principal>();
  answer = () => late.promise;
  await clock.advance(MINUTE_MS);
  second.destroy();
  late.resolve(PRINCIPAL);
  await settle();
  assert.equal(clock.pendingTimers, 0);
});

test("nothing looks after a connection that has left while its credential is being checked again", async () => {
  const { leave } = await callers.enterConnection("x", "192.0.2.1", () => undefined);
  const late = Promise.withResolvers<Principal>();
  answer = () => late.promise;
  await clock.advance(MINUTE_MS);
  leave();
  late.resolve(PRINCIPAL);
  await settle();
  assert.equal(clock.pendingTimers, 0);
});

test("a refusal is counted by its code", async () => {
  answer = () => Promise.reject(new HighwaterError("forbidden"));
  await assert.rejects(callers.enter("x", as(new Response())), { code: "forbidden" });
  await assert.rejects(callers.enterStream("x", as(new Response())), { code: "forbidden" });
  assert.deepEqual(refused, ["forbidden", "forbidden"]);
});
