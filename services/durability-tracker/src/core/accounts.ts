// How much each owner and each gateway has at risk. exposure.ts counts it.

export interface OwnerAccount {
  readonly owner: bigint;
  count: number;
}

/** A gateway, by the name that it announces under. */
export interface Source {
  readonly gateway: string;
  readonly region: string;
  count: number;
  announcedAtMs: number;
}

export interface ExposureTotals {
  total: number;
  readonly owners: Map<bigint, OwnerAccount>;
  readonly sources: Map<string, Source>;
}
