// The environment as a table of settings: every variable once, every fault reported at once, no
// fault quoting a value.
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
  /** Of a whole number. */
  readonly range?: Range;
}

export type SettingsTable = Readonly<Record<string, Setting<unknown>>>;

export type ValuesOf<Table extends SettingsTable> = {
  readonly [Key in keyof Table]: ReturnType<Table[Key]["read"]>;
};

/** What is wrong with one variable; a variable can have several faults. */
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
 * What the table's variables say, and one line per fault, beginning with the variable. The values
 * count only without faults.
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

/** Default and bounds of the variables that are whole numbers; for documentation. */
export function rangesOf(table: SettingsTable): ReadonlyMap<string, Range> {
  return new Map(
    Object.values(table).flatMap(({ variable, range }) =>
      range === undefined ? [] : [[variable, range] as const],
    ),
  );
}
