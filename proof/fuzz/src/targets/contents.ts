// Contents of kept transactions: what gateways hand in, as a tracker takes, lists and opens it.
import assert from "node:assert/strict";
import { AnnouncementBatch, validate } from "@highwater/protocol";
import { ContentsDatabase, groupsOf } from "@highwater/durability-tracker/internals";
import { ContentsKeys } from "@highwater/service";
import { jsonOf } from "../holds.ts";
import { EPOCH, fixtures, ID, OTHER_EPOCH, SEALED } from "../samples.ts";
import { pure, type Target } from "../target.ts";

const TEXT = '{"version":1}';
const ABOUT = { owner: 7n, id: ID, epoch: EPOCH, offset: "83886080" };
const SCHEDULE = [{ kid: 1, validFromMs: 0, secret: "contents of fuzzing, 32 characters" }];
const keys = new ContentsKeys("fuzz", SCHEDULE, { wallMs: () => 0, monotonicMs: () => 0 });

const sealedContents = pure({
  name: "sealed-contents",
  about: "sealed contents open as what was sealed, or not at all",
  seeds: [Buffer.from(SEALED, "base64url")],
  sliceRuns: 1_500,
  run: (input) => {
    let text: string;
    try {
      text = keys.open(ABOUT, input);
    } catch (cause) {
      assert.ok(cause instanceof Error && !(cause instanceof TypeError), String(cause));
      return;
    }
    assert.equal(text, TEXT);
    assert.throws(() => keys.open({ ...ABOUT, owner: 8n }, input), "it opens for another owner");
  },
});

const LIMITS = { bytes: 2_000, bytesPerOwner: 1_000 };
const batch = (...announcements: readonly object[]): string =>
  JSON.stringify({ gateway: "g", announcements });
const contents = (about: object = {}): object => ({
  kind: "contents",
  id: ID,
  epoch: EPOCH,
  offset: "83886080",
  owner: "7",
  sealed: SEALED,
  ...about,
});

function nameOf({ owner = "0", id, epoch }: { owner?: string; id: string; epoch: string }): string {
  return `${owner} ${id.toLowerCase()}/${epoch.toLowerCase()}`;
}

/** Lists and opens everything that the owner has, and checks that it is the owner's. */
function heldBy(database: ContentsDatabase, owner: string): Map<string, string> {
  const question = { after: 0, limit: 1_000, sinceMs: 0, id: null, contents: null, answered: null };
  const held = new Map<string, string>();
  for (const row of database.list({ ...question, owner })) {
    assert.equal(row.owner, owner);
    const found = database.sealed(row);
    assert.equal(found !== null, row.contents === "kept");
    if (found !== null)
      held.set(nameOf(row), Buffer.concat([found.wrapped, found.body]).toString("base64url"));
  }
  return held;
}

const handedIn = pure({
  name: "handed-in-contents",
  about: "a tracker keeps contents as they came first, each for its owner, within its limits, until erased",
  seeds: [
    ...fixtures(/^announcements/),
    batch(contents(), { kind: "answered", id: ID, epoch: EPOCH, owner: "7", answered: "yes" }),
    batch(contents(), contents({ owner: "8" }), contents({ epoch: OTHER_EPOCH, offset: "5" }), contents()),
    batch(...["1", "2", "3", "4", "5", "6", "7", "8"].map((owner) => contents({ owner }))),
    batch(...["a", "b", "c", "d", "e"].map((end) => contents({ id: ID.slice(0, -1) + end }))),
  ],
  words: ["contents", "answered", "sealed", "owner", "offset", "170141183460469231731687303715884105727"],
  sliceRuns: 600,
  run: (input) => {
    const checked = validate(AnnouncementBatch, jsonOf(input));
    if (!checked.ok) return;
    const messages = checked.value.announcements.filter(
      (item) => item.kind === "contents" || item.kind === "answered",
    );
    const contents = messages.filter((item) => item.kind === "contents");
    const database = new ContentsDatabase(":memory:", LIMITS);
    try {
      const { groups, unreadable } = groupsOf(messages);
      const refused = new Set([...database.take(groups), ...unreadable].map(nameOf));
      const sent = new Map<string, string[]>();
      const owners = new Set(messages.map(({ owner = "0" }) => owner));
      for (const item of contents) {
        const name = nameOf(item);
        // The last bits of a text may say nothing, so several texts stand for the same bytes.
        const sealed = Buffer.from(item.sealed, "base64url").toString("base64url");
        sent.set(name, [...(sent.get(name) ?? []), sealed]);
        const [id, epoch] = [item.id.toLowerCase(), item.epoch.toLowerCase()];
        database.lose([{ owner: item.owner ?? "0", id, epoch, atMs: 1, data: "{}" }]);
      }
      assert.ok(database.totals.bytes <= LIMITS.bytes);
      while (database.unpackElsewhere(""));
      const held = new Map([...owners].flatMap((owner) => [...heldBy(database, owner)]));
      for (const [name, all] of sent) {
        const kept = held.get(name);
        if (all.length === 1) assert.equal(kept !== undefined, !refused.has(name), name);
        // Sent again, the first one that found room stays.
        else if (!refused.has(name)) assert.equal(kept, all[0], "what is kept is not what came first");
        assert.ok(kept === undefined || all.includes(kept), "what is kept was not sent");
      }
      for (const name of held.keys()) assert.ok(sent.has(name), "what is kept is another's");
      const [erased = "7", ...others] = owners;
      const before = others.map((owner) => heldBy(database, owner));
      database.erase(erased, 2 ** 48);
      const late = groupsOf(contents.filter(({ owner = "0" }) => owner === erased));
      const notKept = new Set([...database.take(late.groups), ...late.unreadable].map(nameOf));
      while (database.unpackElsewhere(""));
      for (const { id, epoch, owner = "0" } of contents)
        if (owner === erased)
          assert.ok(notKept.has(nameOf({ id, epoch, owner })), "handed in late, it is kept");
      assert.equal(heldBy(database, erased).size, 0);
      assert.deepEqual(
        others.map((owner) => heldBy(database, owner)),
        before,
        "another owner's are gone",
      );
    } finally {
      database.close();
    }
  },
});

export const targets: readonly Target[] = [sealedContents, handedIn];
