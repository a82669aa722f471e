// Goal: an owner's attempts never take the places of other owners. Method: backlogs that never end.
import assert from "node:assert/strict";
import { test } from "node:test";
import { shareOut } from "./shares.ts";

/** Takes jobs from endless backlogs, owners in the given order, until no more may be taken. */
function fill(concurrency: number, owners: readonly string[], endpoints: string[] = []): string[] {
  for (;;) {
    const room = concurrency - endpoints.length;
    if (room === 0) return endpoints;
    // Each owner has a busy endpoint and an idle one.
    const ownerOf = new Map(owners.flatMap((owner) => [owner, `${owner}2`].map((id) => [id, owner])));
    const { most, except } = shareOut({ room, endpoints, ownerOf });
    const open = owners.flatMap((owner) => [`${owner}2`, owner]).filter((id) => !except.includes(id));
    const [oldest] = open;
    if (oldest === undefined) return endpoints;
    endpoints.push(...Array.from({ length: most }, () => oldest));
  }
}

test("an owner with an endless backlog gets half of the places, at all of its endpoints together", () => {
  for (const [concurrency, share] of [
    [1, 1],
    [2, 1],
    [4, 2],
    [32, 16],
    [33, 17],
  ] as const)
    assert.equal(fill(concurrency, ["a"]).length, share, String(concurrency));
});

test("up to five owners with endless backlogs leave a place to another", () => {
  for (let many = 1; many <= 5; many++)
    assert.ok(fill(32, "abcde".slice(0, many).split("")).length < 32, String(many));
});

test("where all places are taken, the next one is for an owner that has none", () => {
  const owners = Array.from({ length: 20 }, (_, at) => String.fromCodePoint(0x61 + at));
  const taken = fill(32, owners);
  assert.equal(taken.length, 32);
  const [ended, ...endpoints] = taken;
  assert.ok(ended !== undefined);
  const ownerOf = new Map([...owners, "new"].flatMap((id) => [id, `${id}2`].map((each) => [each, id])));
  const { most, except } = shareOut({ room: 1, endpoints, ownerOf });
  assert.equal(most, 1);
  for (const owner of new Set(endpoints.map((id) => id.slice(0, 1))))
    for (const endpoint of [owner, `${owner}2`]) assert.ok(except.includes(endpoint), endpoint);
  assert.ok(!except.includes("new"));
});

test("an endpoint whose row is gone counts for itself", () => {
  const endpoints = ["gone", "gone", "other"];
  assert.deepEqual(shareOut({ room: 2, endpoints, ownerOf: new Map([["other", "a"]]) }).except, ["gone"]);
});
