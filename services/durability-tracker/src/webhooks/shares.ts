// Limits how many attempts of one owner run at once on this tracker: at most as many as it leaves
// places free. A single owner gets half of the places; two owners get a third each, after a while.
// The last place is for an owner without a running attempt. Pure.

export interface Places {
  /** How many attempts can begin now; above 0. */
  readonly room: number;
  /** The endpoint of each running attempt. */
  readonly endpoints: readonly string[];
  /** For these endpoints, and for all others of the same owners. */
  readonly ownerOf: ReadonlyMap<string, string>;
}

export interface Turn {
  /** How many jobs may be taken: even if one owner gets them all, it stays within its share. */
  readonly most: number;
  /** The endpoints of owners that have reached their share. */
  readonly except: readonly string[];
}

export function shareOut({ room, endpoints, ownerOf }: Places): Turn {
  const has = new Map<string, number>();
  // An endpoint may have been deleted. Its attempts end soon.
  for (const endpoint of endpoints) {
    const owner = ownerOf.get(endpoint) ?? endpoint;
    has.set(owner, (has.get(owner) ?? 0) + 1);
  }
  const isFull = (owner: string): boolean => (has.get(owner) ?? 0) >= room;
  const highest = Math.max(0, ...[...has].map(([owner, attempts]) => (isFull(owner) ? 0 : attempts)));
  const known = new Set([...ownerOf.keys(), ...endpoints]);
  return {
    // Each attempt that an owner takes adds one to its own and takes one place from all.
    most: Math.max(1, Math.floor((room - highest) / 2)),
    except: [...known].filter((endpoint) => isFull(ownerOf.get(endpoint) ?? endpoint)),
  };
}
