import assert from "node:assert/strict";
import { test } from "node:test";
import { isChoosy, pointedAt } from "./conninfo.ts";

const UPSTREAM = { host: "db2", port: "5433" };
const KEEP = { name: null, onlyWritable: false };

test("the login is kept, and the server is another", () => {
  const text = `user=rep password='it\\'s' host=db1 hostaddr=10.0.0.1 port=5432 application_name=east sslmode=verify-full`;
  assert.equal(
    pointedAt(text, UPSTREAM, KEEP),
    `user=rep password='it\\'s' host=db2 port=5433 application_name=east sslmode=verify-full`,
  );
  assert.equal(
    pointedAt("host=a,b port=1,2 user=rep", UPSTREAM, { name: "us west", onlyWritable: true }),
    "host=db2 port=5433 user=rep application_name='us west' target_session_attrs=read-write",
  );
  assert.equal(
    pointedAt("postgresql://rep:s%40d@db1:5432/?sslmode=require", UPSTREAM, KEEP),
    "user=rep password=s@d sslmode=require host=db2 port=5433",
  );
  assert.equal(pointedAt("", UPSTREAM, KEEP), "host=db2 port=5433");
});

test("a standby that follows only a writable server says so", () => {
  const choosy = pointedAt("host=db1", UPSTREAM, { name: null, onlyWritable: true });
  assert.ok(isChoosy(choosy));
  assert.ok(!isChoosy(pointedAt(choosy, UPSTREAM, KEEP)));
  assert.ok(!isChoosy("host=a target_session_attrs=any"));
  assert.ok(isChoosy("postgresql://a,b/?target_session_attrs=primary"));
});
