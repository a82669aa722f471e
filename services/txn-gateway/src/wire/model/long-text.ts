// Looks for settings in a text that arrives in parts and is too long to be read whole. Searches
// each part for a few words, which takes about 0.4 ms for each MB.
import { ANY_CHANGE } from "./doubts.ts";
import { HIGHWATER, ID, type Kind, SET_CONFIG, type StatementInfo } from "./statement.ts";

/** Longer than any word that is looked for. */
const SEAM = 32;

export type FoundInText = Pick<StatementInfo, "changes" | "namesId" | "isSeveral">;

export class LongText {
  readonly #kind: Kind;
  #namesSettings = false;
  #namesId = false;
  #callsSetConfig = false;
  #isSeveral = false;
  #hasParameters = false;
  /** The end of the last part. */
  #end = "";

  /** `kind`: by its first words. */
  constructor(kind: Kind) {
    this.#kind = kind;
  }

  see(bytes: Buffer, start: number, end: number): void {
    const text = bytes.toString("latin1", start, end);
    this.#isSeveral ||= text.includes(";");
    this.#hasParameters ||= text.includes("$");
    const seam = this.#end + text.slice(0, SEAM);
    // A copy: a slice of the part's text would keep all of it in memory.
    this.#end = text.length < SEAM ? seam.slice(-SEAM) : bytes.toString("latin1", end - SEAM, end);
    // Two searches for one word take less time than one search for two.
    for (const part of [seam, text]) {
      if (HIGHWATER.test(part)) {
        this.#namesSettings = true;
        this.#namesId ||= ID.test(part);
      }
      this.#callsSetConfig ||= SET_CONFIG.test(part);
    }
  }

  /** Null: it does not seem to change settings. */
  get found(): FoundInText | null {
    const isValue = this.#kind === "data" && !this.#isSeveral && !this.#callsSetConfig;
    const maySetAny = this.#callsSetConfig && this.#hasParameters;
    if (isValue || !(this.#namesSettings || maySetAny)) return null;
    return { changes: ANY_CHANGE, namesId: this.#namesId, isSeveral: this.#isSeveral };
  }
}
