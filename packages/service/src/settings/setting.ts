// The environment as a table of settings. Each variable is read once, all faults are reported
// together, and no fault quotes a value.
export type Env = Readonly<Record<string, string | undefined>>;
export type ReadFile = (path: string) => string;

export interface Range {
  readonly fallback: number;
  readonly min: number;
  readonly max: number;
}

export interface Setting<T> {
  readonly variable: string;
  /** Errors: Faults. */
  readonly read: (text: string | undefined, readFile: ReadFile) => T;
  /** Set for whole numbers. */
  readonly range?: Range;
}

export type SettingsTable = Readonly<Record<string, Setting<unknown>>>;

export type ValuesOf<Table extends SettingsTable> = {
  readonly [Key in keyof Table]: ReturnType<Table[Key]["read"]>;
};

/** The faults of one variable. */
export class Faults extends Error {
  readonly faults: readonly string[];

  constructor(...faults: string[]) {
    super(faults.join("; "));
    this.faults = faults;
  }
}

export type Loaded<Config> =
  | { readonly ok: true; readonly config: Config }
  | { readonly ok: false; readonly faults: string[] };

/**
 * The values of the table's variables, and one line per fault, beginning with the variable. Do not
 * use the values if there are faults.
 */
export function readSettings<Table extends SettingsTable>(
  table: Table,
  env: Env,
  readFile: ReadFile,
): { readonly values: ValuesOf<Table>; readonly faults: string[] } {
  const faults: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [key, setting] of Object.entries(table)) {
    try {
      values[key] = setting.read(env[setting.variable], readFile);
    } catch (cause) {
      if (!(cause instanceof Faults)) throw cause;
      faults.push(...cause.faults.map((fault) => `${setting.variable} ${fault}`));
    }
  }
  return { values: values as ValuesOf<Table>, faults };
}

export function variablesOf(table: SettingsTable): string[] {
  return Object.values(table).map(({ variable }) => variable);
}

/** Default and bounds of each whole number, for documentation. */
export function rangesOf(table: SettingsTable): ReadonlyMap<string, Range> {
  return new Map(
    Object.values(table).flatMap(({ variable, range }) =>
      range === undefined ? [] : [[variable, range] as const],
    ),
  );
}
