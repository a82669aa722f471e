// How much each owner and each gateway has at risk. exposure.ts counts it.

export interface OwnerAccount {
  readonly owner: bigint;
  readonly count: number;
}

/** A gateway, by the name that it announces under. */
export interface Source {
  readonly gateway: string;
  readonly region: string;
  readonly count: number;
  readonly announcedAtMs: number;
}

export interface ExposureTotals {
  readonly total: number;
  readonly owners: ReadonlyMap<bigint, OwnerAccount>;
  readonly sources: ReadonlyMap<string, Source>;
}
