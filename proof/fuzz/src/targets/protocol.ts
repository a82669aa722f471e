// Texts that every service reads: tokens, ids, offsets, addresses, topologies.
import assert from "node:assert/strict";
import {
  decodeToken,
  encodeToken,
  formatOffset,
  isInRange,
  parseAddressRange,
  parseEpochId,
  parseOffset,
  parseTxnId,
  type Topology,
  topologyWarnings,
  txnTimestampMs,
} from "@highwater/protocol";
import { decodeToken as clientDecodes } from "@highwater/sdk/internals";
import { Faults, parseTopology } from "@highwater/service";
import { formatLsn, parseLsn } from "@highwater/store/internals";
import { EPOCH, ID, SECRET_IN_PLACE, TOKENS, TOPOLOGY } from "../samples.ts";
import { pure, type Target } from "../target.ts";

const token = pure({
  name: "token",
  about: "a token is refused, or is the one spelling of what it says; service and client read the same",
  seeds: [...TOKENS, "hw2_", "hw2_AA", ""],
  words: ["hw2_", "AA", "__", "-", "=", "+", "/"],
  sliceRuns: 8_000,
  run: (input) => {
    for (const text of [input.toString("utf8"), `hw2_${input.toString("base64url")}`]) {
      const content = decodeToken(text);
      let byClient: ReturnType<typeof clientDecodes> | undefined;
      try {
        byClient = clientDecodes(text);
      } catch (cause) {
        assert.equal((cause as { code?: unknown }).code, "invalid_token");
      }
      if (content === undefined) {
        assert.equal(byClient, undefined, "the client takes what the service refuses");
        continue;
      }
      const { epoch, offset } = content;
      assert.deepEqual(byClient, { id: content.id, position: { epoch, offset: formatOffset(offset) } });
      const body = Buffer.from(text.slice(4), "base64url");
      // Signs everything with the text's own signature.
      const signer = { signingKid: body[1] ?? 0, tokenMac: () => body.subarray(-16) };
      assert.equal(encodeToken(content, signer), text, "the token has another spelling");
      assert.equal(parseOffset(formatOffset(offset)), offset, "the wire has no such offset");
      assert.equal(parseEpochId(content.id), content.id, "the id is no UUID");
    }
  },
});

const texts = pure({
  name: "texts",
  about: "ids, epochs, offsets, addresses and log positions are refused or read as they were written",
  seeds: [
    ID,
    ID.toUpperCase(),
    EPOCH,
    "0",
    "18446744073709551616",
    "10.1.2.0/24",
    "2001:db8::/32",
    "::ffff:10.0.0.1/96",
    "16/B374D848",
  ],
  words: ["/", ":", ".", "::ffff:", "-", "0", "128", "FFFFFFFF"],
  sliceRuns: 8_000,
  run: (input) => {
    const text = input.toString("utf8");
    const id = parseTxnId(text);
    if (id !== undefined) {
      assert.equal(parseTxnId(id), id);
      assert.ok(txnTimestampMs(id) >= 0);
    }
    const epoch = parseEpochId(text);
    if (epoch !== undefined) assert.equal(parseEpochId(epoch), epoch);
    const offset = parseOffset(text);
    if (offset !== undefined) {
      assert.equal(formatOffset(offset), text);
      if (offset < 1n << 64n) assert.equal(parseLsn(formatLsn(offset)), offset);
    }
    const range = parseAddressRange(text);
    if (range !== null) assert.ok(isInRange(range, range.base), "a range has its own base");
    const outer = parseAddressRange("10.0.0.0/8");
    if (outer !== null) isInRange(outer, text);
  },
});

const topology = pure({
  name: "topology",
  about: "a topology is taken or refused with its faults, which quote no secret",
  seeds: [JSON.stringify(TOPOLOGY), JSON.stringify({ ...TOPOLOGY, nodes: TOPOLOGY.nodes.slice(0, 1) }), "{}"],
  words: [
    "10.0.0.0/33",
    "::/0",
    "ask",
    "replication",
    "levels",
    "regions",
    "all",
    "primary",
    "us-east",
    "west",
  ],
  sliceRuns: 1_000,
  run: (input) => {
    let found: Topology;
    try {
      found = parseTopology(input.toString("utf8"));
    } catch (cause) {
      if (!(cause instanceof Faults)) throw cause;
      assert.ok(cause.faults.length > 0);
      const strays = input.toString("utf8").replaceAll(SECRET_IN_PLACE, "");
      assert.ok(
        strays.includes("secret-of") || !cause.message.includes("secret-of"),
        "a fault quotes a password",
      );
      return;
    }
    topologyWarnings(found);
    assert.deepEqual(parseTopology(JSON.stringify(found)), found);
  },
});

export const targets: readonly Target[] = [token, texts, topology];
