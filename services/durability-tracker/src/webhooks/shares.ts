// Decides how many attempts one owner may have under way on this tracker: no more than it leaves
// places. One owner alone gets half of them, two get a third each when all goes on for a while. The
// last place is for an owner that has no attempt under way. Pure.

export interface Places {
  /** Attempts that could begin now; above 0. */
  readonly room: number;
  /** Of each attempt that is under way. */
  readonly endpoints: readonly string[];
  /** Of these endpoints, and of all others that the same owners have. */
  readonly ownerOf: ReadonlyMap<string, string>;
}

export interface Turn {
  /** Jobs that may be taken at once: no owner is above its share if it gets all of them. */
  readonly most: number;
  /** The endpoints of owners that have their share. */
  readonly except: readonly string[];
}

export function shareOut({ room, endpoints, ownerOf }: Places): Turn {
  const has = new Map<string, number>();
  // The row of an endpoint may be gone: its attempts end at once.
  for (const endpoint of endpoints) {
    const owner = ownerOf.get(endpoint) ?? endpoint;
    has.set(owner, (has.get(owner) ?? 0) + 1);
  }
  const isFull = (owner: string): boolean => (has.get(owner) ?? 0) >= room;
  const highest = Math.max(0, ...[...has].map(([owner, attempts]) => (isFull(owner) ? 0 : attempts)));
  const known = new Set([...ownerOf.keys(), ...endpoints]);
  return {
    // Each one that an owner takes is one more for it and one less for all.
    most: Math.max(1, Math.floor((room - highest) / 2)),
    except: [...known].filter((endpoint) => isFull(ownerOf.get(endpoint) ?? endpoint)),
  };
}
