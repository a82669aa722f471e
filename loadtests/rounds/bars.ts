// What a benchmark is judged by, and how a terminal shows it; `make verify` reads these lines.

export interface Bar {
  readonly what: string;
  readonly measured: number;
  readonly met: boolean;
}

export function verdictOf({ what, measured, met }: Bar): string {
  return `${met ? "met   " : "MISSED"} ${what}: ${String(measured)}`;
}
