// Runs the checker, a separate program that reads only the recorded history, and parses its answer.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

const CHECKER = fileURLToPath(new URL("../../checker/src/cli.ts", import.meta.url));
const LIMIT_MS = 240_000;
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;
/** The checker's exit code when it finds violations. */
const VIOLATED = 1;

/** The checker's `--json` output, with its names. */
export interface Judgement {
  readonly invoked: number;
  readonly committed: number;
  readonly read_only: number;
  readonly aborted: number;
  readonly durable: number;
  readonly lost: number;
  readonly broken: number;
  readonly expired: number;
  readonly unknown_resolved: number;
  readonly unanswered: number;
  readonly pending: number;
  readonly violations: number;
  readonly violations_by_rule: Readonly<Record<string, number>>;
  readonly promises_broken: number;
  readonly replayed: number;
  readonly conflicts: number;
  readonly unrecoverable: number;
  readonly ambiguous: number;
  readonly ambiguous_by_kind: Readonly<Record<string, number>>;
  readonly reads: number;
  readonly reports: number;
  readonly deliveries: number;
  readonly messages: number;
  readonly epochs: number;
  readonly failures: number;
  readonly weak: readonly string[];
  readonly examples: readonly {
    readonly rule: string;
    readonly transactions: readonly string[];
    readonly explanation: string;
  }[];
}

export function judge(history: string): Promise<Judgement> {
  return new Promise((resolve, reject) => {
    execFile(
      process.execPath,
      [CHECKER, "--json", history],
      { timeout: LIMIT_MS, maxBuffer: OUTPUT_BYTES_MAX },
      (error, stdout, stderr) => {
        if (error !== null && error.code !== VIOLATED)
          reject(new Error(`the checker did not judge: ${stderr.trim()}`, { cause: error }));
        else resolve(JSON.parse(stdout) as Judgement);
      },
    );
  });
}
