import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import * as protocol from "@highwater/protocol";
import { testToken } from "@highwater/service/testing";
import { checkTransactionId, decodeToken, newTransactionId } from "../src/ids.ts";

const bytes = (length: number): fc.Arbitrary<Uint8Array> =>
  fc.uint8Array({ minLength: length, maxLength: length });
const uuid = bytes(16).map((each) => protocol.formatUuid(each));

test("new ids are UUIDv7 of now", () => {
  const before = Date.now();
  const id = protocol.parseTxnId(newTransactionId());
  assert.ok(id !== undefined);
  const at = protocol.txnTimestampMs(id);
  assert.ok(at >= before && at <= Date.now());
  assert.notEqual(newTransactionId(), newTransactionId());
});

test("ids are checked and made lower case", () => {
  const id = newTransactionId();
  assert.equal(checkTransactionId(id.toUpperCase()), id);
  assert.throws(() => checkTransactionId("00000000-0000-4000-8000-000000000000"), { code: "invalid_id" });
});

test("property: the client reads the same fields from a token as the service", () => {
  const content = fc.record({
    kind: fc.constantFrom("write" as const, "read" as const),
    ...{
      id: uuid,
      epoch: uuid,
      other: fc.option(uuid),
      owner: fc.bigInt({ min: 0n, max: 2n ** 127n }),
      offset: fc.bigInt({ min: 0n, max: 10n ** 64n - 1n }),
    },
  });
  fc.assert(
    fc.property(content, ({ kind, id, epoch, other, owner, offset }) => {
      const token = testToken({
        kind,
        id,
        epoch,
        offset,
        attempt: (other ?? epoch) as protocol.EpochId,
        owner,
      });
      assert.deepEqual(decodeToken(token), { id, position: { epoch, offset: offset.toString() } });
    }),
  );
});

test("property: the client refuses every text that the service refuses as a token", () => {
  const nearly = fc
    .tuple(fc.integer({ min: 0, max: 7 }), bytes(65), fc.uint8Array({ maxLength: 60 }))
    .map(([flags, ids, rest]) => `hw2_${Buffer.from([flags, ...ids, ...rest]).toString("base64url")}`);
  const text = fc.oneof(
    nearly,
    nearly.map((each) => `${each}=`),
    nearly.map((each) => `${each}A`),
    fc.string(),
  );
  fc.assert(
    fc.property(text, (token) => {
      const known = protocol.decodeToken(token);
      if (known === undefined) assert.throws(() => decodeToken(token), { code: "invalid_token" });
      else assert.equal(decodeToken(token).id, known.id);
    }),
    { numRuns: 1_000 },
  );
});
