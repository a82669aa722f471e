// One simulated gateway, by the rules of the real one: it announces an id before its COMMIT and the position after, takes back
// only what certainly never committed, settles what it does not know, and never runs a request in a later epoch than the one
// that it arrived in.
import { type EpochId, type TxnId } from "@highwater/protocol";
import { type AnnouncedItem } from "../src/core/index.ts";
import { type SimNode } from "./node.ts";
import { ownerOf, type Token, type Txn } from "./truth.ts";
import { Watcher } from "./watcher.ts";
import { type SettledReceipts, type World } from "./world.ts";

/** What a client wants done, once. */
export interface Request {
  readonly n: number;
  readonly ids: TxnId[];
  /** Ids under which its client was told that it will never have happened, and the epoch that says so. */
  readonly refused: Map<TxnId, EpochId>;
  /** Its client was told, and would run it again under a new id. */
  isFree: boolean;
  attempts: number;
}

export interface Attempt {
  readonly id: TxnId;
  readonly request: Request;
  readonly node: string;
  readonly epoch: EpochId;
  /** As it is announced; no other attempt has the name. */
  readonly by: string;
  /** `settled`: a tombstone is there that a failover could still undo; its client waits. */
  phase: "announced" | "committed" | "unknown" | "settled" | "ended";
  txn: Txn | null;
  sessions: number;
}

export interface GatewayParts {
  readonly world: World;
  readonly announce: (gateway: number, item: AnnouncedItem) => void;
  /** The node, if it is up and the gateway can reach it. */
  readonly reach: (process: string, node: string) => SimNode | null;
  readonly say: (what: () => string) => void;
  /** The mark of the exposure level has passed the place, as some tracker has told the gateway. */
  readonly isMarked: (place: Token["place"]) => boolean;
  readonly onRefused: (id: TxnId, epoch: EpochId) => void;
}

export class SimGateway {
  readonly n: number;
  readonly #parts: GatewayParts;
  watcher: Watcher;
  attempts: Attempt[] = [];
  #begun = 0;

  constructor(n: number, parts: GatewayParts) {
    this.n = n;
    this.#parts = parts;
    this.watcher = new Watcher(parts.world.nodes.length);
  }

  get name(): string {
    return `gateway ${String(this.n + 1)}`;
  }

  get process(): string {
    return `g${String(this.n)}`;
  }

  get reign(): { readonly node: string; readonly epoch: EpochId } | null {
    const { authority } = this.watcher;
    return authority.kind === "primary" ? authority : null;
  }

  open(phase: Attempt["phase"]): Attempt[] {
    return this.attempts.filter((attempt) => attempt.phase === phase);
  }

  /** Takes a request on and announces it. */
  begin(request: Request, id: TxnId): Attempt | null {
    const { reign } = this;
    const { world, say } = this.#parts;
    if (reign === null || world.isFull) return null;
    const { node, epoch } = reign;
    const by = `${this.name}/${String(this.#begun++)}`;
    const attempt: Attempt = { id, request, node, epoch, by, phase: "announced", txn: null, sessions: -1 };
    this.attempts.push(attempt);
    if (!request.ids.includes(id)) request.ids.push(id);
    request.isFree = false;
    request.attempts++;
    say(() => `${this.name} takes request ${String(request.n)} as ${short(id)} in ${short(epoch)}`);
    if (!world.habits.announcesAfterCommit) this.#announce(attempt, { kind: "intent" });
    return attempt;
  }

  #announce(attempt: Attempt, what: Pick<AnnouncedItem, "kind" | "offset">): void {
    const { id, epoch, request, by } = attempt;
    this.#parts.announce(this.n, { ...what, id, epoch, by, owner: ownerOf(request.n) });
  }

  /** COMMIT. `isAnswered`: whether the gateway hears of it. */
  execute(attempt: Attempt, size: number, isAnswered: boolean): void {
    const { world, reach, say } = this.#parts;
    const { id, epoch, request } = attempt;
    const node = reach(this.process, attempt.node);
    if (node === null) {
      attempt.phase = "unknown";
      return;
    }
    const about = { id, attempt: epoch, request: request.n, size };
    const txn = world.commit(node, about);
    if (typeof txn === "string") {
      say(() => `${node.id} does not run ${short(id)}: ${txn}`);
      attempt.phase = "ended";
      // What another epoch refuses proves nothing of an earlier attempt: its announcement stays.
      if (txn === "used") this.replay(attempt, node);
      else request.isFree = request.attempts === 1;
      return;
    }
    say(() => `${short(id)} commits on ${node.id}, up to ${String(txn.rec.end)}`);
    attempt.sessions = node.sessions;
    attempt.txn = txn;
    attempt.phase = isAnswered ? "committed" : "unknown";
  }

  /** The position is read behind the COMMIT, on its connection: by then others may have written more. */
  acknowledge(attempt: Attempt): void {
    const { world, reach, say } = this.#parts;
    const node = reach(this.process, attempt.node);
    if (node === null || node.sessions !== attempt.sessions || node.epoch !== attempt.epoch) {
      attempt.phase = "unknown";
      return;
    }
    attempt.phase = "ended";
    const offset = world.logEnd(node);
    say(() => `${short(attempt.id)} is answered with ${String(offset)} in ${short(attempt.epoch)}`);
    if (world.habits.announcesAfterCommit) this.#announce(attempt, { kind: "intent" });
    this.#announce(attempt, { kind: "position", offset });
    if (attempt.txn !== null) world.truth.token(attempt.txn, { epoch: attempt.epoch, offset });
  }

  /** The outcome is unknown: find out on whoever is the primary now, or make it so that it never commits. */
  settle(attempt: Attempt): void {
    const { reign } = this;
    const { world, reach, say } = this.#parts;
    const node = reign === null ? null : reach(this.process, reign.node);
    if (reign === null || node === null) return;
    const found = world.settle(node, { epoch: reign.epoch, ids: [attempt.id], tombstone: "aborted" });
    if (found === null) return;
    attempt.phase = "ended";
    say(
      () => `${this.name} settles ${short(attempt.id)} on ${node.id}: ${found.get(attempt.id)?.kind ?? ""}`,
    );
    this.#conclude(attempt, found, { epoch: reign.epoch, offset: node.end });
  }

  /** The id has been used: the original outcome counts, and nothing is run. */
  replay(attempt: Attempt, node: SimNode): void {
    const receipt = node.receipt(attempt.id);
    const epoch = node.epoch;
    if (receipt === undefined || epoch === null) return;
    const found: SettledReceipts = new Map([[attempt.id, { ...receipt, kind: receipt.says }]]);
    this.#conclude(attempt, found, { epoch, offset: node.end });
  }

  #conclude(attempt: Attempt, found: SettledReceipts, place: Token["place"]): void {
    const { truth } = this.#parts.world;
    const { id, request } = attempt;
    attempt.phase = "ended";
    const receipt = found.get(id);
    if (receipt === undefined) return;
    if (receipt.kind !== "commit") {
      const isChosen = receipt.kind === "lost" && this.#parts.world.isCommanded(place.epoch);
      if (!isChosen && !this.#parts.isMarked(place)) {
        attempt.phase = "settled";
        return;
      }
      this.#parts.onRefused(id, place.epoch);
      // `lost` is the trackers' own word, which a withdrawal must not undo.
      if (receipt.kind === "aborted") this.#announce(attempt, { kind: "withdrawn" });
      if (!request.refused.has(id)) request.refused.set(id, place.epoch);
      // It may have been run again since, under another id.
      request.isFree = request.ids.at(-1) === id;
      return;
    }
    // A position may be announced only in the epoch that the receipt names.
    if (receipt.epoch === attempt.epoch && place.epoch === attempt.epoch)
      this.#announce(attempt, { kind: "position", offset: place.offset });
    const txn = truth.txns.find((each) => each.id === id && each.attempt === receipt.epoch);
    if (txn !== undefined) truth.token(txn, place);
  }

  /** Killed: nobody settles or announces what it had in hand. */
  die(): void {
    this.attempts = [];
    this.watcher = new Watcher(this.#parts.world.nodes.length);
  }
}

/** The telling end of an id. */
export const short = (id: string): string => {
  const name = id.startsWith("e") ? "e" : "t";
  return `${name}${String(parseInt(id.slice(-12), 16))}`;
};
