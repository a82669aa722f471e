// A tracker's input: questions for events, announcements, and addresses of webhooks.
import assert from "node:assert/strict";
import { AnnouncementBatch, validate } from "@highwater/protocol";
import {
  checkedAddresses,
  checkUrl,
  formatCursor,
  isPublic,
  parseAllowList,
  parseCursor,
  parseRetryAfter,
  readEventsQuery,
} from "@highwater/durability-tracker/internals";
import { jsonOf, orRefused, orRefusedLater } from "../holds.ts";
import { EPOCH, fixtures, ID, SEALED } from "../samples.ts";
import { pure, type Target } from "../target.ts";

const eventsQuery = pure({
  name: "events-query",
  about: "what a stream of events is asked with, its resume id among it, is read or refused",
  seeds: [
    "types=transaction.lost,promise.broken&after=1.5.0b1c2d3e",
    "durable=true&level=region&metadata.order=7&format=stream\n12.7.deadbeef\ntext/event-stream",
    "format=json&limit=10\n0.0\napplication/json",
  ],
  words: [
    "after=",
    "types=",
    "durable=true",
    "level=",
    "metadata.",
    "format=json",
    "limit=",
    "&",
    "0.0",
    "9007199254740992.1.00000000",
  ],
  sliceRuns: 2_500,
  run: (input) => {
    const [search = "", lastEventId, accept] = input.toString("utf8").split("\n");
    const query: Record<string, string | string[]> = {};
    for (const [name, value] of new URLSearchParams(search)) {
      const known = Object.hasOwn(query, name) ? query[name] : undefined;
      Object.defineProperty(query, name, {
        enumerable: true,
        configurable: true,
        writable: true,
        value: known === undefined ? value : [known, value].flat(),
      });
    }
    const levels = ["disk", "region"];
    const asked = orRefused(() => readEventsQuery({ query, lastEventId, accept, levels }));
    if (asked?.after) assert.deepEqual(parseCursor(formatCursor(asked.after)), asked.after);
    assert.ok(asked === null || (asked.limit >= 1 && asked.limit <= 1_000));
  },
});

const announcements = pure({
  name: "announcements",
  about: "a batch that is taken has only what a store can hold",
  seeds: [
    ...fixtures(/^announcement/),
    JSON.stringify({
      gateway: "g",
      region: "us-east",
      announcements: [
        {
          kind: "intent",
          id: ID,
          epoch: EPOCH,
          by: "fuzz.1",
          endsWithinMs: 63_000,
          owner: "7",
          metadata: { a: "b" },
          maxDelayMs: 5,
          level: "region",
        },
        { kind: "position", id: ID, epoch: EPOCH, offset: "83886080", owner: "9223372036854775807" },
        { kind: "withdrawn", id: ID, epoch: EPOCH, by: "fuzz.1" },
        { kind: "contents", id: ID, epoch: EPOCH, offset: "83886080", owner: "7", sealed: SEALED },
        { kind: "answered", id: ID, epoch: EPOCH, owner: "7", answered: "yes" },
      ],
    }),
  ],
  words: [
    "kind",
    "intent",
    "position",
    "withdrawn",
    "contents",
    "answered",
    "sealed",
    "owner",
    "offset",
    "9223372036854775808",
    "-9223372036854775809",
  ],
  sliceRuns: 1_500,
  run: (input) => {
    const checked = validate(AnnouncementBatch, jsonOf(input));
    if (!checked.ok) {
      assert.ok(checked.faults.length > 0);
      return;
    }
    for (const item of checked.value.announcements) {
      if (item.owner === undefined) continue;
      const owner = BigInt(item.owner);
      assert.equal(BigInt.asUintN(128, owner), owner, "no owner has this tag");
    }
  },
});

const allowed = parseAllowList(["hooks.internal", "10.1.0.0/16"]).list;

const webhookUrls = pure({
  name: "webhook-urls",
  about: "a webhook's address leads to a public place or an allowed one, or is refused",
  seeds: [
    "https://hooks.example.com/a?b=c",
    "http://hooks.internal:8080/",
    "https://[2606:4700::1111]/",
    "https://10.1.2.3/",
    "https://0x7f.1/",
    "https://127.0.0.1.:8443/",
  ],
  words: [
    "https://",
    "http://",
    "127.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "169.254.169.254",
    "localhost",
    "0177.0.0.1",
    "@",
    ":22",
    "%2e",
    "。",
    "10.1.0.1",
  ],
  sliceRuns: 1_500,
  run: async (input) => {
    const text = input.toString("utf8");
    parseAllowList(text.split(","));
    const { signal } = new AbortController();
    const url = orRefused(() => checkUrl(text, allowed), ["webhook_url_refused"]);
    if (url === null) return;
    assert.equal(checkUrl(url.href, allowed).href, url.href, "kept, it is another");
    for (const address of ["127.0.0.1", "93.184.216.34", "::1"]) {
      const resolve = async (): Promise<{ address: string; family: 4 | 6 }[]> => [
        { address, family: address.includes(":") ? 6 : 4 },
      ];
      const found = await orRefusedLater(
        () => checkedAddresses(url, { allow: allowed, resolve, signal }),
        ["webhook_url_refused"],
      );
      for (const { address: one } of found ?? []) {
        const isNamed = url.hostname.replace(/\.$/, "") === "hooks.internal";
        assert.ok(isNamed || isPublic(one) || one.startsWith("10.1."), `it leads to ${one}`);
      }
    }
    parseRetryAfter(text, 1_700_000_000_000);
  },
});

export const targets: readonly Target[] = [eventsQuery, announcements, webhookUrls];
