// What a request for events may ask for.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HighwaterError, LISTED_EVENT_TYPES } from "@highwater/protocol";
import { type EventsRequest, readEventsQuery } from "./query.ts";

const read = (query: EventsRequest["query"] = {}, more: Partial<EventsRequest> = {}) =>
  readEventsQuery({
    query,
    lastEventId: undefined,
    accept: undefined,
    levels: ["disk", "region", "global"],
    ...more,
  });

function faultsOf(query: EventsRequest["query"], more: Partial<EventsRequest> = {}): readonly string[] {
  try {
    read(query, more);
  } catch (cause) {
    assert.ok(cause instanceof HighwaterError);
    return cause.details.fields ?? [cause.code];
  }
  return assert.fail("nothing was refused");
}

describe("a request for events", () => {
  it("without parameters asks for a stream of all events that every key gets, from now on", () => {
    const { format, after, types, durable } = read();
    assert.deepEqual([format, after, types, durable], ["stream", null, LISTED_EVENT_TYPES, null]);
    assert.ok(!types.includes("transaction.durable") && types.includes("transaction.lost"));
  });

  it("asks for a page by name or by what it accepts, and then from the oldest on", () => {
    const oldest = { epoch: "", seq: 0, n: 0 };
    assert.deepEqual([read({ format: "json" }).format, read({ format: "json" }).after], ["page", oldest]);
    assert.equal(read({}, { accept: "application/json" }).format, "page");
    assert.equal(read({}, { accept: "text/event-stream, application/json" }).format, "stream");
    assert.equal(read({}, { accept: "*/*" }).format, "stream");
    assert.equal(read({ format: "stream" }, { accept: "application/json" }).format, "stream");
    assert.deepEqual(
      [read({ format: "json" }).limit, read({ format: "json", limit: "1000" }).limit],
      [100, 1_000],
    );
  });

  it("goes on where the header says, else where the address says", () => {
    assert.deepEqual(read({ after: "3.17.0b1c2d3e" }).after, { epoch: "0b1c2d3e", seq: 3, n: 17 });
    assert.deepEqual(read({ after: "0.0" }).after, { epoch: "", seq: 0, n: 0 });
    assert.deepEqual(read({ after: "3.17.0b1c2d3e" }, { lastEventId: "4.1.deadbeef" }).after, {
      epoch: "deadbeef",
      seq: 4,
      n: 1,
    });
    assert.deepEqual(read({ after: "3.17.0b1c2d3e" }, { lastEventId: "" }).after, {
      epoch: "0b1c2d3e",
      seq: 3,
      n: 17,
    });
  });

  it("chooses types", () => {
    assert.deepEqual(read({ types: "transaction.lost,epoch.started" }).types, [
      "transaction.lost",
      "epoch.started",
    ]);
    assert.deepEqual(read({ types: ["promise.broken", "promise.broken"] }).types, ["promise.broken"]);
  });

  it("asks for durable ones at a level and by metadata", () => {
    assert.deepEqual(read({ durable: "true" }).durable, { level: "region", metadata: {} });
    assert.deepEqual(read({ durable: "true" }, { levels: ["a", "b"] }).durable?.level, "b");
    assert.deepEqual(
      read({ durable: "true", level: "global", "metadata.order": "17", "metadata.a.b": "", "metadata.": "x" })
        .durable,
      { level: "global", metadata: { order: "17", "a.b": "", "": "x" } },
    );
    assert.equal(read({ durable: "false" }).durable, null);
  });

  it("is refused with every fault it has", () => {
    assert.equal(
      faultsOf({ format: "xml", after: "x", types: "lost", durable: "yes", limit: "0", colour: "red" })
        .length,
      6,
    );
    assert.match(faultsOf({ types: "transaction.durable" })[0] ?? "", /durable=true/);
    assert.equal(faultsOf({ level: "disk", "metadata.a": "1" }).length, 2);
    assert.equal(faultsOf({ after: ["1.1.deadbeef", "1.2.deadbeef"] }).length, 1);
    assert.equal(faultsOf({ durable: "true", "metadata.a": ["1", "2"] }).length, 1);
    assert.equal(faultsOf({ durable: "true", format: "json" }).length, 1);
    assert.deepEqual(faultsOf({ durable: "true", level: "moon" }), ["unknown_level"]);
    for (const after of [
      "",
      "1",
      "1.1",
      "1.1.",
      "1..deadbeef",
      ".1.deadbeef",
      "01.1.deadbeef",
      "1.1.1",
      "1.1.DEADBEEF",
      "1.1.deadbeef0",
      "1.1.1.deadbeef",
      "0.1.deadbeef",
      "-1.1.deadbeef",
      "99999999999999999.1.deadbeef",
      "9007199254740993.1.deadbeef",
    ])
      assert.equal(faultsOf({ after }).length, 1, after);
    assert.match(faultsOf({}, { lastEventId: "abc" })[0] ?? "", /Last-Event-ID/);
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`metadata.${String(at)}`, "x"]));
    assert.equal(faultsOf({ durable: "true", ...many }).length, 1);
  });
});
