// Deliberate bugs, each of which the simulation has to find. A patch replaces a text that occurs exactly once in the product's
// source, so that this list cannot rot; a habit is a fault of what the simulation plays itself, because the rule lives in SQL or
// in the gateway.
import type { SourcePatch } from "@highwater/lab-tools/process";
import type { Habits } from "./world.ts";

export interface Mutant {
  readonly name: string;
  readonly patch?: SourcePatch;
  readonly habit?: keyof Habits;
  /** The series of runs that finds it soon, if the usual one takes long. */
  readonly series?: number;
  /** The first run of the series that is played, where those before it find nothing. */
  readonly from?: number;
  /** Its runs have clients of the PostgreSQL wire. */
  readonly wires?: true;
}

const core = (file: string): string => `services/durability-tracker/src/core/${file}.ts`;

const gateway = (file: string): string => `services/txn-gateway/src/${file}.ts`;

export const MUTANTS: readonly Mutant[] = [
  {
    name: "offsets are compared across epochs",
    patch: {
      file: core("verdict"),
      find: `  if (!isCurrent(state, position.epoch)) {
    const why`,
      replace: `  const mine = markIn(state, (state.topology.ancestry.at(-1)?.id ?? "") as EpochId, level);
  if (mine !== null && mine >= position.offset) return { ...plain, verdict: "durable", rule, position };
  if (!isCurrent(state, position.epoch)) {
    const why`,
    },
    from: 16,
  },
  {
    name: "a mark passes what is just above it",
    patch: {
      file: core("verdict"),
      find: `if (mark !== null && mark >= position.offset) return { ...plain, verdict: "durable", rule, position };`,
      replace: `if (mark !== null && mark + 8n >= position.offset) return { ...plain, verdict: "durable", rule, position };`,
    },
    from: 13,
  },
  {
    name: "the best node counts instead of the k-th",
    patch: {
      file: core("marks"),
      find: `  best.delete(domain(primary));`,
      replace: ``,
    },
  },
  {
    name: "a level of all regions is reached by most of them",
    patch: {
      file: core("marks"),
      find: `    if (position === null) return null;
    if (low`,
      replace: `    if (position === null) continue;
    if (low`,
    },
  },
  {
    name: "a stream is believed without the epoch's row on the replica",
    patch: {
      file: core("nodes"),
      find: `    if (node.confirmedFeed === replica.session && !node.unfit) raise(node, replica.flushed);`,
      replace: `    if (!node.unfit) raise(node, replica.flushed);`,
    },
    series: 23,
    from: 263,
  },
  {
    name: "a replica's own word is believed after it was cut off",
    patch: {
      file: core("nodes"),
      find: `  if (node.ownStream.confirmed) raise(node, upstream.flushed);`,
      replace: `  raise(node, upstream.flushed);`,
    },
    from: 3560,
  },
  {
    name: "positions of an earlier epoch go on counting",
    patch: {
      file: core("nodes"),
      find: `  for (const node of nodesOf(state)) {
    node.position = null;`,
      replace: `  for (const node of nodesOf(state)) {`,
    },
  },
  {
    name: "carried over above the fork",
    patch: {
      file: core("verdict"),
      find: `  return higherOf(parseOffset(successor.forkOffset) ?? null, own);`,
      replace: `  return higherOf(parseOffset(successor.startOffset) ?? null, own);`,
    },
  },
  {
    name: "what an epoch has in common is taken for what all of it has",
    patch: {
      file: core("fates"),
      find: `    return carried !== null && position.offset <= carried.upTo ? carried.to : null;`,
      replace: `    return carried === null ? null : carried.to;`,
    },
  },
  {
    name: "at which levels an epoch was durable is not asked",
    patch: {
      file: core("fates"),
      find: `if (offset <= mark) bits |= bit;`,
      replace: `if (offset < 0n) bits |= bit;`,
    },
  },
  {
    name: "look-ups that find no room are forgotten",
    patch: {
      file: core("proofs"),
      find: `    if (taken.length === count) break;
    taken.push(key);`,
      replace: `    if (taken.length < count) taken.push(key);`,
    },
  },
  {
    name: "who waits is not judged again when a mark has passed",
    patch: {
      file: core("verdict"),
      find: `      return (entry.reached & levelBit(state, level)) === 0 && isHeld(state, entry);`,
      replace: `      return isHeld(state, entry);`,
    },
  },
  {
    name: "who waits is not judged again when the entry has left",
    patch: {
      file: core("verdict"),
      find: `  return ledger.entries.get(entry.key) === entry;`,
      replace: `  return ledger.entries.size > 0 || entry.key === "";`,
    },
    from: 580,
  },
  {
    name: "a read is kept wherever it was",
    patch: {
      file: core("placing"),
      find: `const kept = keptPlace(state, position) ?? keptPlace(state, entry.origin ?? position);`,
      replace: `const kept = start;`,
    },
  },
  {
    name: "late announcements of an ended epoch are forgotten",
    patch: {
      file: core("announcements"),
      find: `  for (const item of event.items) takeOne`,
      replace: `  for (const item of event.items)
    if (state.topology.standing.kind !== "following" || item.epoch === state.topology.standing.epoch) takeOne`,
    },
    series: 9,
    from: 11,
  },
  {
    name: "what waits is forgotten when its epoch ends",
    patch: {
      file: core("ledger"),
      find: `    unqueueAll(state);
    backlog.begin`,
      replace: `    backlog.begin`,
    },
    from: 6,
  },
  {
    name: "the receipt of another attempt counts",
    patch: {
      file: core("proof"),
      find: `const present = fact.kind === "commit" && fact.epoch === entry.attempt;`,
      replace: `const present = fact.kind === "commit";`,
    },
    series: 6,
    from: 108,
  },
  {
    name: "a loss is told before its tombstone is safe",
    patch: {
      file: core("proof"),
      find: `    if (level === undefined || !hasReached(state, level, asOf)) {`,
      replace: `    if (level === undefined) {`,
    },
  },
  {
    name: "a loss is told by the strongest level that the survivors can reach",
    patch: {
      file: core("proof"),
      find: `  const safe = names.slice(Math.max(0, names.indexOf(state.config.exposureLevel)));`,
      replace: `  const safe = names;`,
    },
    from: 25,
  },
  {
    name: "the event of a loss follows the proof of a history that was given up",
    patch: {
      file: core("proof"),
      find: `  if (asOf?.epoch !== standing.epoch) return undefined;`,
      replace: `  if (asOf === null) return undefined;`,
    },
    series: 2,
    from: 9082,
  },
  {
    name: "a command before the histories parted releases losses",
    patch: {
      file: core("verdict"),
      find: `  return ancestry.slice(from + 1).some(isChoice);`,
      replace: `  return ancestry.slice(Math.min(from, 0)).some(isChoice);`,
    },
    from: 72,
  },
  {
    name: "a loss that a token tells of is nobody's",
    patch: {
      file: core("announcements"),
      find: `    owner: event.owner,`,
      replace: `    owner: 0n,`,
    },
  },
  {
    name: "an epoch that no survivor has seen stays pending",
    patch: {
      file: core("verdict"),
      find: `  return outranks(state.topology.ancestry, epoch, state.topology.epochs) || isLeftBehind(state, epoch);`,
      replace: `  return outranks(state.topology.ancestry, epoch, state.topology.epochs);`,
    },
  },
  {
    name: "what was told as lost is not settled in the next history",
    patch: {
      file: core("placing"),
      find: `        if (entry.kind === "write") doubt(state, entry.key);`,
      replace: ``,
    },
    series: 25,
    from: 615,
  },
  {
    name: "what reappears is not told",
    patch: {
      file: core("proof"),
      find: `    if (present) reappear(state, entry, effects);`,
      replace: ``,
    },
    from: 1826,
  },
  {
    name: "a restart forgets at which levels it was durable",
    from: 130,
    patch: {
      file: core("ledger"),
      find: `  if (entry.state.kind === "asked") entry.state = { kind: "unproven" };`,
      replace: `  if (entry.state.kind === "asked") entry.state = { kind: "unproven" };
  entry.reached = 0;`,
    },
    series: 7,
  },
  {
    name: "marks are not saved with what leaves by them",
    from: 100,
    patch: {
      file: "services/durability-tracker/src/shell/saving.ts",
      find: `  for (const [level, offset] of state.topology.marks.get(epoch) ?? []) ledger.saveMark`,
      replace: `  for (const [level, offset] of epoch === "" ? (state.topology.marks.get(epoch) ?? []) : []) ledger.saveMark`,
    },
    series: 5,
  },
  {
    name: "a broken promise is told as a loss",
    patch: {
      file: core("verdict"),
      find: `      bits |= levelBit(state, name);
  return bits;
}

/**
 * True when the rule promises`,
      replace: `      bits |= 0;
  return bits;
}

/**
 * True when the rule promises`,
    },
  },
  {
    name: "the exposure of what is looked up is not counted",
    patch: {
      file: core("exposure"),
      find: `    case "pending":
    case "unproven":
    case "asked":`,
      replace: `    case "asked":
      return false;
    case "pending":
    case "unproven":`,
    },
    series: 2,
    from: 10,
  },
  {
    name: "an epoch's log is taken to be here up to the switch point",
    patch: {
      file: "packages/authority/src/fork.ts",
      find: `  return { cause: "promotion", fork: maxOffset(witnessed, watched), limit: switchedAt };`,
      replace: `  return { cause: "promotion", fork: maxOffset(witnessed, switchedAt ?? end), limit: switchedAt };`,
    },
    from: 318,
  },
  {
    name: "after a crash the log is taken to be here up to its end",
    patch: {
      file: "packages/authority/src/fork.ts",
      find: `return { cause, fork: witnessed, limit };`,
      replace: `return { cause, fork: end, limit };`,
    },
  },
  {
    name: "where it is not known that the log was left, its end is taken for that",
    patch: {
      file: "packages/authority/src/fork.ts",
      find: `  return { cause: "promotion", fork: maxOffset(witnessed, watched), limit: switchedAt };`,
      replace: `  return { cause: "promotion", fork: maxOffset(witnessed, watched), limit: switchedAt ?? end };`,
    },
    series: 20_260_105,
    from: 268,
    wires: true,
  },
  {
    name: "a promise without a receipt stands where it is not known that the history has it",
    patch: {
      file: core("verdict"),
      find: `  return successor.forkLimit === null ? "not known" : "given up";`,
      replace: `  return successor.forkLimit === null ? "kept" : "given up";`,
    },
    series: 20_260_105,
    from: 268,
    wires: true,
  },
  {
    name: "what is learned is not counted",
    from: 60,
    patch: { file: core("learned"), find: `    countEntry(state, entry);`, replace: `` },
    series: 8,
  },
  {
    name: "marks of histories that were given up are not shared",
    patch: {
      file: core("verdict"),
      find: `    if (start === undefined || there === null || there < start) continue;`,
      replace: `    if (start !== undefined || there === null) continue;`,
    },
  },
  {
    name: "what others have told as broken is not heard",
    patch: {
      file: core("peer-verdicts"),
      find: `  for (const published of peerVerdicts) takePeerVerdict`,
      replace: `  for (const published of peerVerdicts.slice(peerVerdicts.length)) takePeerVerdict`,
    },
    series: 13,
    from: 186,
  },
  {
    name: "what was lost here becomes durable by another's word",
    patch: {
      file: core("peer-verdicts"),
      find: `  reach(entry, bits);`,
      replace: `  reach(entry, bits | durable);`,
    },
    series: 13,
    from: 186,
  },
  {
    name: "broken at more levels is recorded as the same event",
    series: 8,
    from: 120,
    patch: {
      file: "services/durability-tracker/src/events/new-events.ts",
      find: `  return broken.length === 0 ? name`,
      replace: `  return broken.length >= 0 ? name`,
    },
  },
  {
    name: "ids are announced after their COMMIT",
    patch: {
      file: gateway("attempts/transactions"),
      find: `deps.store.execute(primaryEpoch.node, spec, bounds.signal)`,
      replace: `deps.store.execute(primaryEpoch.node, { ...spec, onBeforeSend: () => undefined }, bounds.signal)
          .then((execution) => (spec.onBeforeSend?.(), execution))`,
    },
    from: 16,
  },
  {
    name: "the mark of another epoch counts for a gateway's wait",
    patch: {
      file: gateway("outcomes/marks"),
      find: `    return this.#marks.get(epoch)?.get(level);`,
      replace: `    const marks = [...this.#marks.values()].map((levels) => levels.get(level) ?? (0n as Offset));
    return marks.reduce((most, mark) => (epoch !== "" && mark > most ? mark : most), 0n as Offset);`,
    },
    from: 69,
  },
  {
    name: "a wait ends below its place",
    series: 2,
    patch: {
      file: gateway("outcomes/marks"),
      find: `for (const waiter of waiters.splice(0, firstAbove(waiters, mark))) waiter`,
      replace: `for (const waiter of waiters.splice(0, mark > 0n ? waiters.length : 0)) waiter`,
    },
  },
  {
    name: "a tombstone is answered before it is final",
    patch: {
      file: gateway("outcomes/finality"),
      find: `return marks.wait({ epoch, level: isChosen ? chosenLevel : level, offset }, limitMs, signal);`,
      replace: `if (offset >= 0n) return Promise.resolve("reached");
    return marks.wait({ epoch, level: isChosen ? chosenLevel : level, offset }, limitMs, signal);`,
    },
    from: 16,
  },
  {
    name: "a tombstone is final at the weakest level",
    patch: {
      file: gateway("outcomes/finality"),
      find: `const isChosen = kind === "lost" && primary`,
      replace: `const isChosen = kind !== "lost" || primary`,
    },
    series: 13,
    from: 7,
  },
  {
    name: "an attempt of an ended epoch is settled as aborted",
    patch: {
      file: gateway("outcomes/settler"),
      find: `primaryEpoch.epoch === attempt ? "aborted" : "lost"`,
      replace: `primaryEpoch.epoch === attempt ? "aborted" : "aborted"`,
    },
    from: 16,
  },
  {
    name: "the announcement of what may have committed is withdrawn",
    patch: {
      file: gateway("outcomes/outcomes"),
      find: `if (settled.kind === "aborted") announced?.withdraw();`,
      replace: `if (settled.kind !== "committed") announced?.withdraw();`,
    },
    from: 16,
  },
  {
    name: "a gateway begins an epoch with marks that no tracker has published",
    patch: {
      file: gateway("primary/primary"),
      find: `        const known = this.#options.knownMarks();`,
      replace: `        const { finalMarks, everywhere } = this.#options.knownMarks();
        const invented = Object.entries(finalMarks).map(([epoch, marks]) => [
          epoch,
          Object.fromEntries(Object.keys(marks).map((level) => [level, "99999"])),
        ]);
        const known = { finalMarks: Object.fromEntries(invented), everywhere };`,
    },
    from: 255,
  },
  {
    name: "announcements that a tracker refuses are forgotten",
    patch: {
      file: gateway("trackers/announcements"),
      find: `    return null;
  }

  #noteFailure(`,
      replace: `    return NONE;
  }

  #noteFailure(`,
    },
  },
  {
    name: "one survivor's word counts for all",
    patch: {
      file: core("survivors"),
      find: `(reached.get(site.id) ?? null);`,
      replace: `sent;`,
    },
    series: 2,
    from: 14,
  },
  {
    name: "a held answer of the wire takes a place in another epoch",
    patch: {
      file: gateway("wire/positions"),
      find: `      if (wanted.primaryEpoch.epoch !== position.epoch) {
        tell(wanted, "ended", null);
        continue;
      }`,
      replace: ``,
    },
    wires: true,
  },
  {
    name: "a held answer of the wire goes out below its place",
    patch: {
      file: gateway("wire/positions"),
      find: `const end = await this.#parts.marks.wait({ ...position, level }, INTEREST_MS / 2);`,
      replace: `const below = { ...position, offset: (position.offset - 8n) as Offset, level };
      const end = await this.#parts.marks.wait(below, INTEREST_MS / 2);`,
    },
    from: 90,
    wires: true,
  },
  {
    name: "a promise without a receipt stands wherever the next history has left the log",
    patch: {
      file: core("verdict"),
      find: `  return successor.forkLimit === null ? "not known" : "given up";`,
      replace: `  return successor.forkLimit === null ? "not known" : "kept";`,
    },
    wires: true,
    from: 370,
  },
  {
    name: "what every level had before it was placed stays in the ledger",
    patch: {
      file: core("ledger"),
      find: `  enter(state, entry, { kind: "pending", position }, effects);
  if (hasAll`,
      replace: `  enter(state, entry, { kind: "pending", position }, effects);
  if (entry.reached < 0 && hasAll`,
    },
  },
  { name: "a token's offset is what has been written out", habit: "tokenFromWritten" },
  { name: "positions tell what was received, not what is on disk", habit: "showsReceived", from: 40 },
  { name: "unknown outcomes are run again under a new id", habit: "retriesUnsettled", series: 25, from: 97 },
  { name: "a look-up leaves no tombstone", habit: "looksOnly" },
];
