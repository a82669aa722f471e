// What a tracker reads: questions for events, announcements, the addresses of webhooks, and its own ledger after a crash.
import assert from "node:assert/strict";
import { AnnouncementBatch, type EpochId, type Offset, type TxnId, validate } from "@highwater/protocol";
import { type Entry, type Waiting } from "../../../services/durability-tracker/src/core/index.ts";
import { readEventsQuery } from "../../../services/durability-tracker/src/events/query.ts";
import { formatPlace, parsePlace } from "../../../services/durability-tracker/src/events/wire.ts";
import {
  decodeEntry,
  decodeWaiting,
  encodeEntry,
  encodeWaiting,
} from "../../../services/durability-tracker/src/shell/ledger-codec.ts";
import {
  checkedAddresses,
  checkUrl,
  isPublic,
  parseAllowList,
} from "../../../services/durability-tracker/src/webhooks/address.ts";
import { parseRetryAfter } from "../../../services/durability-tracker/src/webhooks/schedule.ts";
import { jsonOf, orRefused, orRefusedLater } from "../holds.ts";
import { EPOCH, fixtures, ID, OTHER_EPOCH } from "../samples.ts";
import { pure, type Target } from "../target.ts";

const eventsQuery = pure({
  name: "events-query",
  about: "what a stream of events is asked with, its resume id among it, is read or refused",
  seeds: [
    "types=transaction.lost,promise.broken&after=1.5",
    "durable=true&level=region&metadata.order=7&format=stream\n12.7\ntext/event-stream",
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
    "9007199254740992.1",
  ],
  sliceRuns: 2_500,
  run: (input) => {
    const [search = "", lastEventId, accept] = input.toString("utf8").split("\n");
    const query: Record<string, string | string[]> = {};
    for (const [name, value] of new URLSearchParams(search)) {
      const known = Object.hasOwn(query, name) ? query[name] : undefined;
      Object.defineProperty(query, name, {
        ...{ enumerable: true, configurable: true, writable: true },
        value: known === undefined ? value : [known, value].flat(),
      });
    }
    const levels = ["disk", "region"];
    const asked = orRefused(() => readEventsQuery({ query, lastEventId, accept, levels }));
    if (asked?.after) assert.deepEqual(parsePlace(formatPlace(asked.after)), asked.after);
    assert.ok(asked === null || (asked.limit >= 1 && asked.limit <= 1_000));
  },
});

const announcements = pure({
  name: "announcements",
  about: "a batch that is taken has only what a store can hold",
  seeds: [
    ...fixtures(/^announcement/),
    JSON.stringify({
      ...{ gateway: "g", region: "us-east" },
      announcements: [
        {
          kind: "intent",
          id: ID,
          epoch: EPOCH,
          owner: "-7",
          metadata: { a: "b" },
          maxDelayMs: 5,
          level: "region",
        },
        { kind: "position", id: ID, epoch: EPOCH, offset: "83886080", owner: "9223372036854775807" },
        { kind: "withdrawn", id: ID, epoch: EPOCH },
      ],
    }),
  ],
  words: [
    "kind",
    "intent",
    "position",
    "withdrawn",
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
      if (item.kind === "withdrawn" || item.owner === undefined) continue;
      const owner = BigInt(item.owner);
      assert.equal(BigInt.asIntN(64, owner), owner, "no receipt can have this owner");
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

const owner = { owner: 7n } as Entry["owner"];
const ENTRY: Entry = {
  ...{ key: `${ID}/${EPOCH}`, id: ID as TxnId, attempt: EPOCH as EpochId, kind: "write", announced: true },
  origin: { epoch: EPOCH as EpochId, offset: 83_886_080n as Offset },
  state: { kind: "pending", place: { epoch: EPOCH as EpochId, offset: 83_886_080n as Offset } },
  ...{
    reached: 3,
    atMs: 1_700_000_000_000,
    owner,
    source: { gateway: "g", region: "us-east" } as Entry["source"],
  },
  ...{ isExposed: true, hasOtherTokens: false, metadata: { order: "7" } },
};
const STATES: readonly Entry["state"][] = [
  ...[ENTRY.state, { kind: "intent" } as const, { kind: "unproven" } as const, { kind: "expired" } as const],
  {
    ...{ kind: "absent", sinceMs: 5, retriedIn: null },
    asOf: { epoch: OTHER_EPOCH as EpochId, offset: 5n as Offset },
  },
  { kind: "gone", settledAt: "region", retriedIn: OTHER_EPOCH as EpochId, reappeared: false, broken: 2 },
  { kind: "unknown" },
];
const WAITING = {
  ...{ id: ID as TxnId, offset: 83_886_080n as Offset, owner, source: ENTRY.source },
  metadata: JSON.stringify({ a: "b" }),
} as unknown as Waiting;
const waiting = encodeWaiting(WAITING);

export const ledgerRows = pure({
  name: "ledger-rows",
  about:
    "a row of the ledger is read as the core needs it, or refused; what is read is written as the same again",
  seeds: [
    ...STATES.map((state) => `e\n\n${encodeEntry({ ...ENTRY, state })}`),
    `e\n\n${encodeEntry({ ...ENTRY, origin: null, source: null, metadata: null })}`,
    `w${waiting.key}\n\n${waiting.body}`,
  ],
  words: ["pending", "absent", "gone", "intent", "place", "asOf", "origin", "owner", "metadata", "/"],
  sliceRuns: 8_000,
  run: (input) => {
    const text = input.toString("utf8");
    const end = text.indexOf("\n\n");
    const [key, body] = [text.slice(1, Math.max(1, end)), text.slice(end + 2)];
    let isRead = false;
    try {
      if (text.startsWith("w")) {
        const read = decodeWaiting(key, body);
        isRead = true;
        const again = encodeWaiting({ ...read, owner: { owner: read.owner } } as unknown as Waiting);
        assert.deepEqual(decodeWaiting(again.key, again.body), read);
      } else {
        const read = decodeEntry(body);
        isRead = true;
        const again = encodeEntry({
          ...read,
          isExposed: false,
          owner: { owner: read.owner },
        } as unknown as Entry);
        assert.deepEqual(decodeEntry(again), read);
      }
    } catch (cause) {
      if (isRead || !(cause instanceof Error) || !cause.message.startsWith("ledger: ")) throw cause;
    }
  },
});

export const targets: readonly Target[] = [eventsQuery, announcements, webhookUrls];
