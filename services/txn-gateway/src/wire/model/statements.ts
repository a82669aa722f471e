// Tracks the prepared statements and portals of a session, as far as their texts matter. Bounded: a
// forgotten one counts as unseen.
import { type StatementInfo, UNSEEN_STATEMENT } from "./statement.ts";

const NAMES_MAX = 2_000;
const NAME_BYTES_MAX = 64;

class Named {
  readonly #infos = new Map<string, StatementInfo>();

  get(name: string): StatementInfo {
    return this.#infos.get(name) ?? UNSEEN_STATEMENT;
  }

  set(name: string, info: StatementInfo): void {
    if (name.length > NAME_BYTES_MAX) return;
    const known = this.#infos.get(name);
    // The server may keep either of two statements with one name: if they differ, it is unseen.
    const isDoubtful = name !== "" && known !== undefined && differ(known, info);
    if (known === undefined && this.#infos.size >= NAMES_MAX) return;
    this.#infos.set(name, isDoubtful ? UNSEEN_STATEMENT : info);
  }

  delete(name: string): void {
    this.#infos.delete(name);
  }
}

function differ(one: StatementInfo, other: StatementInfo): boolean {
  if (one.kind !== other.kind || one.isLocking !== other.isLocking) return true;
  if (one.takesSnapshot !== other.takesSnapshot) return true;
  return (one.changes === null) !== (other.changes === null);
}

export class Statements {
  readonly #statements = new Named();
  readonly #portals = new Map<string, StatementInfo>();

  parsed(name: string, info: StatementInfo): void {
    this.#statements.set(name, info);
  }

  of(name: string): StatementInfo {
    return this.#statements.get(name);
  }

  bound(portal: string, statement: string): void {
    if (this.#portals.size >= NAMES_MAX) this.#portals.clear();
    this.#portals.set(portal, this.#statements.get(statement));
  }

  ofPortal(portal: string): StatementInfo {
    return this.#portals.get(portal) ?? UNSEEN_STATEMENT;
  }

  closed(kind: string, name: string): void {
    if (kind === "S") this.#statements.delete(name);
    else this.#portals.delete(name);
  }

  /** Portals end with their transaction. */
  transactionEnded(): void {
    if (this.#portals.size > 1) this.#portals.clear();
  }
}
