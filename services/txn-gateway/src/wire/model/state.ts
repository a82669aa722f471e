// What both legs of a session know.
import { ExpectedAnswers, type Expected, OWN, type Purpose } from "./expected.ts";
import { type HoldQueue, type Gate } from "./hold-queue.ts";
import { DEFAULT_SETTINGS, OWN_PREPARE, type Settings } from "./own.ts";

export type TransactionStatus = "I" | "T" | "E";

/** What the model asks of the shell. */
export interface Outside {
  toServer(bytes: Buffer): void;
  /** Asks for a position now, and opens the gate when what lies below is as safe as was asked. */
  wait(gate: Gate): void;
  /** Settings that are wrong, said once for each change. */
  warn(faults: readonly string[]): void;
  /** The server does not answer as PostgreSQL does: the session cannot go on. */
  broken(reason: string): void;
}

export class SessionState {
  readonly expected = new ExpectedAnswers();
  readonly client: HoldQueue;
  readonly outside: Outside;
  /** As the last ReadyForQuery said. */
  status: TransactionStatus = "I";
  settings: Settings = DEFAULT_SETTINGS;
  /** The texts that they were read from. */
  settingsText = "";
  /** They may have changed: they are read before the next message of the client is sent on. */
  isStale = true;
  /** Our statement is prepared. */
  isPrepared = false;
  /** What the check in front of a COMMIT has found; null: there was none. */
  isReadOnlyCommit: boolean | null = null;

  constructor(client: HoldQueue, outside: Outside) {
    this.client = client;
    this.outside = outside;
  }

  /** In front of a statement of ours: prepares it where that is needed. */
  prepareOwn(): void {
    if (this.isPrepared) return;
    this.isPrepared = true;
    this.outside.toServer(OWN_PREPARE);
    this.expected.push(OWN.close);
    this.expected.push(OWN.parse);
  }

  expectOwn(purpose: Purpose): void {
    this.expected.push(OWN.bind);
    this.expected.push(OWN_EXECUTE[purpose]);
    this.expected.push(OWN.close);
  }
}

const OWN_EXECUTE: Readonly<Record<Purpose, Expected>> = {
  check: { message: "execute", whose: "own", purpose: "check" },
  settings: { message: "execute", whose: "own", purpose: "settings" },
  commit: { message: "execute", whose: "own", purpose: "commit" },
  inline: { message: "execute", whose: "own", purpose: "inline" },
};
