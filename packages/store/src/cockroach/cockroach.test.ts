// Goal: timestamps keep every digit and their order, marks claim no more than a cut-over keeps, and what would commit behind the service is refused.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HighwaterError } from "@highwater/protocol";
import { statusOf } from "./cluster.ts";
import { formatHlc, offsetAtMs, parseHlc, parseTime, wallMsOf } from "./hlc.ts";
import { refuseForCockroach } from "./statements.ts";
import { versionFault } from "./version.ts";

describe("commit timestamps as offsets", () => {
  it("are 29 digits, whatever the server leaves out", () => {
    assert.equal(parseHlc("1764363600123456789.0000000042"), 17643636001234567890000000042n);
    assert.equal(parseHlc("1764363600123456789"), 17643636001234567890000000000n);
    assert.ok(parseHlc("1764363600123456789.0000000002") < parseHlc("1764363600123456789.0000000010"));
    for (const text of ["", "-1", "1e3", "1.00000000001", "NULL"]) assert.throws(() => parseHlc(text));
  });

  it("are written as the server takes them", () => {
    const offset = parseHlc("1764363600123456789.0000000042");
    assert.equal(formatHlc(offset), "1764363600123456789.0000000042");
    assert.equal(wallMsOf(offset), 1_764_363_600_123);
    assert.equal(offsetAtMs(1_764_363_600_123.9), parseHlc("1764363600123000000"));
  });

  it("are at or below the time of a standby that has them, to the microsecond", () => {
    const shown = parseTime("2025-11-28 21:00:00.123456+00");
    assert.equal(shown, parseHlc("1764363600123456000"));
    assert.equal(parseTime("2025-11-28 21:00:00.12+00:00"), parseHlc("1764363600120000000"));
    assert.equal(parseTime("2025-11-28 21:00:00+00"), parseHlc("1764363600000000000"));
    assert.ok(
      parseHlc("1764363600123456001.0000000000") > shown,
      "the rest of the microsecond is not claimed",
    );
    for (const text of ["", "2025-11-28 21:00:00", "2025-11-28 21:00:00+01"])
      assert.throws(() => parseTime(text));
  });
});

describe("a standby's mark", () => {
  const row = { id: "3", status: "replicating", replicated_time: "2025-11-28 21:00:00.5+00" };
  const markOf = (more: Record<string, string | null>): bigint | null =>
    statusOf({ ...row, ...more }, "c", false).mark;

  it("is its replicated time, and at most the time to which an operator lets it cut over", () => {
    assert.equal(markOf({}), parseHlc("1764363600500000000"));
    const ordered = {
      status: "replication pending failover",
      failover_time: "1764363600400000000.0000000000",
    };
    assert.equal(markOf(ordered), parseHlc("1764363600400000000"));
    assert.equal(markOf({ ...ordered, failover_time: "1764363600600000000" }), markOf({}));
  });

  it("is unknown while the standby is not replicating, or has not said", () => {
    for (const status of ["replication error", "replication failing over", "ready"])
      assert.equal(markOf({ status }), null);
    assert.equal(markOf({ replicated_time: null }), null);
  });
});

describe("statements for CockroachDB", () => {
  const refused = [
    "SHOW COMMIT TIMESTAMP",
    "show /* a */ commit timestamp;",
    "SAVEPOINT cockroach_restart",
    'RELEASE SAVEPOINT "cockroach_restart";',
    "ROLLBACK TO SAVEPOINT Cockroach_Restart",
    "BACKUP INTO 'x'",
    "SELECT * FROM t AS OF SYSTEM TIME '-1h'",
    "SET TRANSACTION as of\n system /* 'x */ time follower_read_timestamp()",
    "SET LOCAL autocommit_before_ddl = on",
    "SELECT set_config('AutoCommit_Before_DDL', 'on', false)",
  ];
  for (const sql of refused)
    it(`refuses ${sql}`, () => {
      assert.throws(
        () => {
          refuseForCockroach([{ sql: "SELECT 1" }, { sql }]);
        },
        (cause) => cause instanceof HighwaterError && cause.details.statement === 1,
      );
    });

  it("lets others through", () => {
    for (const sql of [
      "SAVEPOINT mine",
      "RELEASE mine",
      "SHOW TABLES",
      "SELECT 'cockroach_restart'",
      "SELECT 'as of system time' -- as of system time",
    ])
      refuseForCockroach([{ sql }]);
  });
});

it("takes releases from 25.4.5 on, of CockroachDB alone", () => {
  const of = (version: string): string | null => versionFault(`CockroachDB CCL v${version} (x86_64)`);
  for (const version of ["25.4.5", "25.4.10", "26.1.0", "26.2.0-beta.1"]) assert.equal(of(version), null);
  for (const version of ["25.4.4", "25.3.9", "24.3.27"])
    assert.match(String(of(version)), /older than 25\.4\.5/);
  assert.match(String(versionFault("PostgreSQL 18.1 on x86_64")), /no CockroachDB/);
});
