// Works out what an operator's command for a node says, and what speaks against it, from what nodes
// and trackers report. Pure.
import { type NodeReport } from "@highwater/authority";
import {
  type AuthorityCommand,
  authorityCommand,
  knownEpochs,
  type NodeAnswers,
  notEndedBy,
  type Remembered,
  remembering,
  strangersOf,
} from "@highwater/durability-tracker/failover";
import { type EpochRecord } from "@highwater/protocol";

export interface Wishes {
  readonly node: string;
  /** Null: one is made. */
  readonly reason: string | null;
  /** Epochs that the operator gives up. */
  readonly overrules: ReadonlySet<string>;
  /** The operator confirms that nodes which do not answer are off, and stay off. */
  readonly isFenced: boolean;
}

export interface Facts extends Pick<NodeAnswers, "reports" | "failures"> {
  readonly memories: readonly Remembered[];
}

export interface Plan {
  readonly node: string;
  /** Null: it cannot be given. */
  readonly command: AuthorityCommand | null;
  /** Why not. */
  readonly obstacles: readonly string[];
  readonly warnings: readonly string[];
  /** Epochs that the node's history neither has nor ends, oldest first. */
  readonly givenUp: readonly EpochRecord[];
}

export function planAuthorization(wishes: Wishes, facts: Facts): Plan {
  const { node } = wishes;
  const { reports, failures, memories } = facts;
  const { graph } = knownEpochs({ reports, trackers: remembering(memories) });
  const report = reports.get(node);
  const own = report?.epochs ?? [];
  const strangers = strangersOf(node, facts, { graph });
  const givenUp = own.length === 0 ? [] : notEndedBy(own, graph);
  const newest = own.at(-1);
  const earlier = own.findLast((record) => record.node !== node);
  const unnamed = givenUp.filter(({ id }) => !wishes.overrules.has(id));
  const obstacles = [
    ...whyNotOn(node, report, failures),
    ...rivalsOf(node, facts),
    ...silentOnes(wishes, facts, [earlier, ...givenUp]),
    ...(unnamed.length === 0 ? [] : [howToGiveUp(node, unnamed)]),
  ];
  const command =
    obstacles.length > 0 || newest === undefined
      ? null
      : authorityCommand({
          node,
          ends: newest.id,
          overrules: [...new Set([...strangers, ...wishes.overrules])],
          reason:
            wishes.reason ??
            (earlier === undefined ? "confirmed as the primary" : `failover from ${earlier.node}`),
        });
  return { node, command, obstacles, warnings: warningsOf(memories, report?.unfit ?? null, node), givenUp };
}

function whyNotOn(
  node: string,
  report: NodeReport | undefined,
  failures: ReadonlyMap<string, string>,
): string[] {
  if (report === undefined) return [`${node} does not answer: ${failures.get(node) ?? "it was not asked"}`];
  if (report.role !== "primary")
    return [
      `${node} is a replica. After a failure, promote it first: SELECT pg_promote(); for a planned change: highwater switchover ${node}`,
    ];
  if (report.epochs.length > 0) return [];
  return [`${node} has no epoch of Highwater: to continue with such a database, highwater adopt`];
}

/** Another writable node goes on accepting what would be lost. */
function rivalsOf(node: string, { reports }: Facts): string[] {
  return [...reports.values()].flatMap((rival) =>
    rival.node === node || rival.role !== "primary"
      ? []
      : [`${rival.node} is writable as well: turn it off first, because anything that it accepts is lost`],
  );
}

/** A node that was the primary in one of these epochs may still be, where it does not answer. */
function silentOnes(
  { node, isFenced }: Wishes,
  { reports }: Facts,
  epochs: readonly (EpochRecord | undefined)[],
): string[] {
  if (isFenced) return [];
  const names = new Set(epochs.flatMap((record) => record?.node ?? []));
  return [...names]
    .filter((name) => name !== node && !reports.has(name))
    .map(
      (name) =>
        `${name} was the primary, and does not answer: it may still accept transactions, which would be lost. If you know that it is off and stays off, add --fenced`,
    );
}

function howToGiveUp(node: string, unnamed: readonly EpochRecord[]): string {
  const names = unnamed.map(({ id, seq, node: on }) => `${id} (number ${String(seq)}, on ${on})`);
  const options = unnamed.map(({ id }) => `--overrule ${id}`).join(" ");
  return `${node} lacks these epochs, and the command gives them up with everything that committed in them: ${names.join(", ")}. If that is what you want, add ${options}`;
}

function warningsOf(memories: readonly Remembered[], unfit: string | null, node: string): string[] {
  return [
    ...(memories.length === 0
      ? ["no tracker was asked (HIGHWATER_TRACKERS): an epoch that only trackers remember is not named"]
      : []),
    ...memories.flatMap((memory) =>
      memory.kind === "silent" ? [`tracker ${memory.tracker} does not answer: ${memory.reason}`] : [],
    ),
    ...(unfit === null ? [] : [`${node}: ${unfit}`]),
  ];
}
