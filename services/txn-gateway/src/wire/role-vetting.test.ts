// Goal: what a role has become counts for the next session at once, and for open ones within a
// minute, and many sessions cost few questions. Method: a store that says what the test says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock, settle } from "@highwater/runtime/testing";
import { type Deps } from "../deps.ts";
import { RoleVetting } from "./role-vetting.ts";

const USE = { node: "a", role: "app", reads: false };

function make() {
  const clock = new FakeClock();
  const state = { asked: 0, faults: [] as string[], isSilent: false };
  const roleFaults = (): Promise<readonly string[]> => {
    state.asked++;
    return state.isSilent ? Promise.reject(new Error("not now")) : Promise.resolve([...state.faults]);
  };
  const vetting = new RoleVetting({ clock, store: { roleFaults } as unknown as Deps["store"] });
  return { clock, state, vetting };
}

test("sessions that begin together share an answer, and later ones get a new one", async () => {
  const { clock, state, vetting } = make();
  await Promise.all(Array.from({ length: 100 }, () => vetting.check(USE)));
  assert.equal(state.asked, 1);
  state.faults = ["is a superuser, or can become one"];
  await clock.advance(1_000);
  await assert.rejects(vetting.check(USE), { code: "forbidden" });
  state.faults = [];
  await clock.advance(1_000);
  await vetting.check(USE);
});

test("an open session ends within a minute, also while others begin", async () => {
  const { clock, state, vetting } = make();
  let isEnded = false;
  const unwatch = vetting.watch(USE, () => (isEnded = true));
  await clock.advance(59_000);
  await vetting.check(USE);
  state.faults = ["may create roles, or can become a role that may (CREATEROLE)"];
  await clock.advance(1_000);
  await settle();
  assert.equal(isEnded, true);
  unwatch();
  assert.equal(clock.pendingTimers, 0);
});

test("an open session stays while the role cannot be looked at", async () => {
  const { clock, state, vetting } = make();
  let isEnded = false;
  const unwatch = vetting.watch(USE, () => (isEnded = true));
  state.isSilent = true;
  await clock.advance(180_000);
  assert.equal(isEnded, false);
  state.isSilent = false;
  state.faults = ["owns a database, or can become its owner"];
  await clock.advance(60_000);
  assert.equal(isEnded, true);
  unwatch();
});
