// Reads which nodes an HA manager may promote next, from the keys beside its leader key. Knows
// Patroni's keys and nothing of positions. If the answer is not certain, it is unknown, because a
// missing mark promises nothing. (docs/decisions/0027-only-what-may-be-promoted.md)

/**
 * All nodes that may take over from the holder of the lease, at one moment of the manager's memory.
 */
export type Candidates =
  | { readonly kind: "known"; readonly nodes: readonly string[] }
  | { readonly kind: "unknown"; readonly reason: string };

export interface ManagerMemory {
  /** The member that holds the leader key. */
  readonly holder: string;
  /** Values of the keys beside it; null where there is none. */
  readonly sync: string | null;
  readonly config: string | null;
  /** Values of the members' own keys, by member. */
  readonly members: ReadonlyMap<string, string>;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Patroni records a standby before it relies on it for a promotion, and removes the record before
 * it stops waiting for that standby. Members are Patroni's own names, and like Patroni this ignores
 * their case.
 */
export function candidatesOf(memory: ManagerMemory): Candidates {
  const config = parse(memory.config);
  if (config === null) return unknown("the manager has no readable configuration");
  const mode = textOf(config.synchronous_mode ?? "off").toLowerCase();
  if (mode === "quorum")
    return unknown("synchronous_mode is quorum, which promotes others than the synchronous standbys");
  if (!["true", "on", "yes", "1"].includes(mode)) return unknown("synchronous_mode is off");
  const sync = parse(memory.sync);
  const isOfHolder =
    typeof sync?.leader === "string" && sync.leader.toLowerCase() === memory.holder.toLowerCase();
  const listed = isOfHolder && typeof sync.sync_standby === "string" ? namesIn(sync.sync_standby) : [];
  const count = Math.max(1, Number.parseInt(textOf(config.synchronous_node_count), 10) || 1);
  if (listed.length !== count)
    return unknown(
      `the manager lists ${String(listed.length)} of ${String(count)} synchronous standbys: ${listed.join(", ") || "none"}`,
    );
  const barred = listed.filter((name) => isBarred(memberNamed(memory.members, name)));
  if (barred.length > 0)
    return unknown(`${barred.join(", ")} is a synchronous standby, and its tag nofailover bars it`);
  return { kind: "known", nodes: listed };
}

function memberNamed(members: ReadonlyMap<string, string>, name: string): Fields | null {
  for (const [member, value] of members) if (member.toLowerCase() === name.toLowerCase()) return parse(value);
  return null;
}

/**
 * The tag `nofailover` takes precedence over `failover_priority: 0`, which means the same. A member
 * without a key may come back, so it is not barred.
 */
function isBarred(member: Fields | null): boolean {
  const tags = (member?.tags ?? {}) as Fields;
  if (tags.nofailover !== undefined && tags.nofailover !== null) return Boolean(tags.nofailover);
  return tags.failover_priority !== undefined && Number(tags.failover_priority) <= 0;
}

/** YAML may have turned a setting into a boolean or a number. */
function textOf(value: unknown): string {
  return ["string", "number", "boolean"].includes(typeof value) ? String(value) : "";
}

function namesIn(list: string): string[] {
  return list
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

function parse(text: string | null): Fields | null {
  if (text === null) return null;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : null;
  } catch {
    return null;
  }
}

function unknown(reason: string): Candidates {
  return { kind: "unknown", reason };
}
