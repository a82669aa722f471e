// Deliberate bugs in the product's services. Under the faults that a mutant names, the checker has
// to find it. A patch replaces a text that occurs exactly once, so a change of the source cannot
// disable it unnoticed.
import { type SourcePatch } from "@highwater/lab-tools/process";

export interface Mutant {
  readonly name: string;
  readonly patch: SourcePatch;
  /** Kinds of faults that expose it. */
  readonly faults: readonly string[];
  /** Only a run in which lost transactions are brought back exposes it. */
  readonly replays?: true;
}

const authority = (file: string): string => `packages/authority/src/${file}.ts`;
const store = (file: string): string => `packages/store/src/${file}.ts`;
const gateway = (file: string): string => `services/txn-gateway/src/${file}.ts`;
const tracker = (file: string): string => `services/durability-tracker/src/${file}.ts`;

/** Of bringing lost transactions back. */
const REPLAYS: readonly Omit<Mutant, "faults" | "replays">[] = [
  {
    name: "a replay does not name its root",
    patch: {
      file: gateway("replay/run"),
      find: "[, ...all] = await open.run([root, ...asked.flat()], signal);",
      replace: '[, ...all] = await open.run([{ sql: "SELECT 1" }, ...asked.flat()], signal);',
    },
  },
  {
    name: "a replay writes over newer rows",
    patch: {
      file: gateway("replay/run"),
      find: 'if (before?.rows[0] !== undefined && before.rows[0][0] !== "t") return "changed";',
      replace: "",
    },
  },
  {
    name: "a replay may have another result",
    patch: {
      file: gateway("replay/run"),
      find: "if (lost.command !== redone.command || lost.rowCount !== redone.rowCount || lost.digest !== redone.digest)",
      replace: "if (lost.command !== redone.command)",
    },
  },
  {
    name: "a replay brings back a safe transaction that was not answered",
    patch: {
      file: gateway("replay/ends"),
      find: 'const wasDurable = answered === "yes" && level !== undefined && brokenAt.has(level);',
      replace: "const wasDurable = [answered, level, brokenAt].length > 0;",
    },
  },
  {
    name: "conflicts of a replay are not reported",
    patch: {
      file: gateway("replay/replay"),
      find: "const transactions = mine.map(",
      replace: 'const transactions = mine.filter(({ end }) => end?.outcome !== "conflict").map(',
    },
  },
];

export const MUTANTS: readonly Mutant[] = [
  ...REPLAYS.map((each) => ({ ...each, faults: ["failover_during_replay"], replays: true as const })),
  {
    name: "the wire releases an answer on the mark of an older position",
    patch: {
      file: gateway("wire/positions"),
      find: "const end = await this.#parts.marks.wait({ ...position, level }, INTEREST_MS / 2);",
      replace:
        "const end = await this.#parts.marks.wait({ ...position, offset: (position.offset - 200_000n) as Offset, level }, INTEREST_MS / 2);",
    },
    faults: ["zombie_primary"],
  },
  {
    name: "the wire takes a commit for a read",
    patch: {
      file: gateway("wire/model/server-leg"),
      find: "if (state.isReadOnlyCommit !== true) this.#holds.hold(true);",
      replace: "",
    },
    faults: ["zombie_primary"],
  },
  {
    name: "a safe transaction is answered at its commit",
    patch: {
      file: gateway("outcomes/outcomes"),
      find: "const verdict = await durability.await(promised, how.maxWaitMs, how.signal);",
      replace:
        'const verdict = (await Promise.resolve("durable")) as Awaited<ReturnType<typeof durability.await>>;',
    },
    faults: ["lose_primary", "lose_region"],
  },
  {
    name: "a position is below the commit record",
    patch: {
      file: store("postgres/execute"),
      find: "const offset = endOfLog(parseLsn(lsn), session.segmentBytes);",
      replace: "const offset = (endOfLog(parseLsn(lsn), session.segmentBytes) - 40_000n) as Offset;",
    },
    faults: ["lose_primary", "lose_region"],
  },
  {
    name: "everything is carried over into the next epoch",
    patch: {
      file: tracker("core/verdict"),
      find: "return higherOf(parseOffset(successor.forkOffset) ?? null, own);",
      replace: "return higherOf((2n ** 62n) as Offset, own);",
    },
    faults: ["lose_primary", "lose_region"],
  },
  {
    name: "a crash keeps the whole log",
    patch: {
      file: authority("fork"),
      find: "return { cause, fork: witnessed, limit };",
      replace: "return { cause, fork: end, limit: end };",
    },
    faults: ["lose_unflushed", "kill_primary"],
  },
  {
    name: "a witness says more than it has seen",
    patch: {
      file: store("postgres/sql"),
      find: "SELECT $1, s.id, pg_current_wal_insert_lsn(), ",
      replace: "SELECT $1, s.id, pg_current_wal_insert_lsn() + 400000, ",
    },
    faults: ["lose_unflushed", "lose_primary"],
  },
  {
    name: "a receipt is of one attempt instead of an id",
    patch: {
      file: store("postgres/plan"),
      find: "const values = [spec.id, spec.tag, spec.epoch, String(spec.digest)];",
      replace: "const values = [spec.id, crypto.randomUUID(), spec.epoch, String(spec.digest)];",
    },
    faults: ["kill_gateway", "kill_primary"],
  },
  {
    name: "a broken promise is not noticed",
    patch: {
      file: tracker("core/verdict"),
      find: "      bits |= levelBit(state, name);\n  return bits;",
      replace: "      bits |= levelBit(state, name);\n  return bits & 0;",
    },
    faults: ["older_primary", "promote_laggard"],
  },
  {
    name: "a promoted replica is taken to have all of the old log",
    patch: {
      file: authority("fork"),
      find: 'return { cause: "promotion", fork: maxOffset(witnessed, watched), limit: switchedAt };',
      replace: 'return { cause: "promotion", fork: (end + 100_000_000n) as Offset, limit: null };',
    },
    faults: ["lose_primary", "lose_region"],
  },
  {
    name: "a connection that dies during COMMIT is a failure",
    patch: {
      file: store("postgres/failures"),
      find: 'const code = readOnly ? "primary_unavailable" : "commit_unconfirmed";',
      replace: 'const code = readOnly ? "primary_unavailable" : "serialization_failure";',
    },
    // Each reset hits replies on their way back. A crash hits hardly any: replies under way still
    // arrive.
    faults: ["reset_link", "flapping_link"],
  },
  {
    name: "a webhook that was refused is not sent again",
    patch: {
      file: tracker("webhooks/worker"),
      find: 'const isDelivered = attempt.outcome === "delivered";',
      replace: 'const isDelivered = attempt.outcome !== "refused";',
    },
    faults: ["lose_primary", "lose_region"],
  },
  {
    name: "a webhook names the losses of everybody",
    patch: {
      file: tracker("webhooks/message"),
      find: "if (event.owner !== null && event.owner !== interest.owner) return false;",
      replace: "if (event.owner !== null && event.owner === 0n) return false;",
    },
    faults: ["lose_primary", "lose_region"],
  },
];
