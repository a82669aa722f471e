// The contents of one transaction of the wire, from its COMMIT on.
import { type EpochId, type Isolation, type Offset } from "@highwater/protocol";
import { type Kept } from "../../contents/keeper.ts";
import { type Announced } from "../../trackers/announcer.ts";
import { type KeptFacts } from "../model/own.ts";
import { type RecordedStatements } from "../model/recorder.ts";

export class WireContents {
  readonly kept: Kept;
  readonly #ran: RecordedStatements;
  readonly #isRelayed: boolean;
  facts: KeptFacts | null = null;

  constructor(kept: Kept, ran: RecordedStatements, isRelayed: boolean) {
    this.kept = kept;
    this.#ran = ran;
    this.#isRelayed = isRelayed;
  }

  /** Its position has been announced. */
  committed(announced: Announced | null, at: { readonly epoch: EpochId; readonly offset: Offset }): void {
    const statements = this.#ran();
    const [first] = statements;
    if (this.#isRelayed && first !== undefined) first.unreplayable ??= "passthrough";
    this.kept.ran(statements);
    if (this.facts === null) {
      this.kept.committed(announced, at, null);
      return;
    }
    const { order, isolation, session } = this.facts;
    this.kept.committed(announced, at, null, order, {
      // PostgreSQL has no weaker one.
      isolation: isolation === "read uncommitted" ? "read committed" : (isolation as Isolation),
      settings: JSON.parse(session) as Record<string, string>,
    });
  }
}
