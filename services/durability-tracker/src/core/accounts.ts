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

/** What an attempt counts for. */
export interface Counted {
  readonly owner: OwnerAccount;
  readonly source: Source | null;
  readonly atRisk: string | null;
}

/** The sums of one unit, in billionths. */
export interface UnitSums {
  readonly amount: bigint;
  readonly byGateway: ReadonlyMap<string, bigint>;
  readonly byOwner: ReadonlyMap<bigint, bigint>;
}

export interface ExposureTotals {
  readonly total: number;
  readonly owners: ReadonlyMap<bigint, OwnerAccount>;
  readonly sources: ReadonlyMap<string, Source>;
  /** By unit. A unit is absent while nothing has a value in it. */
  readonly values: ReadonlyMap<string, UnitSums>;
}
