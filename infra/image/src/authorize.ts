// Writes the operator's command on a node that was promoted, as `failover-candidate` says it. Reads
// that command's own answer and refuses what it does not stand for: another node, an old primary
// that was not fenced, another history, a node that is a replica still. The command's id follows
// from what it says, so writing it again changes nothing. Exit codes: 0 the command is there, 1
// failed, 2 wrong environment, 3 refused, 4 the node is not writable yet.
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import {
  type AuthorityCommand,
  authorityCommand,
  type CandidateReport,
  writeCommand,
} from "@highwater/durability-tracker/failover";
import { parseTopology } from "@highwater/service";
import pg from "pg";
import { type Origin, readReport, finish } from "./failover-lines.ts";

const EXIT = { done: 0, failed: 1, wrongEnvironment: 2, refused: 3, notYet: 4 } as const;
const POLL_MS = 500;
const CONNECT_LIMIT_MS = 10_000;
const STATEMENT_LIMIT_MS = 30_000;

/** Why the report does not speak for a command on the node; null when it does. */
export function whyNot(report: CandidateReport, node: string, stage: string | null): string | null {
  if (report.refusal !== null)
    return `the report refuses (${report.refusal}): ${report.reasons.join("; ")}. Ask again when that is mended`;
  if (!report.fenced || (stage !== null && stage !== "fenced"))
    return "the report was made before the old primary was fenced: fence it, ask again with --fenced, and give that report";
  if (report.candidate !== node || report.epoch === null)
    return `the report names ${report.candidate ?? "nobody"}, and not ${node}: write the command there`;
  return null;
}

/** The operator's command that the report asks for. */
export function commandOf(report: CandidateReport, node: string): AuthorityCommand {
  const { epoch, overrules } = report;
  if (epoch === null) throw new Error("the report has no epoch, so it names no node");
  return authorityCommand({ node, ends: epoch.id, overrules, reason: `failover from ${epoch.primary}` });
}

type Attempt =
  | { readonly kind: "written" | "there" }
  | { readonly kind: "refused" | "not_yet"; readonly why: string };

/** One try on one connection. Errors: those of the connection, which may pass. */
async function attempt(client: pg.Client, command: AuthorityCommand): Promise<Attempt> {
  const replica = await client.query<{ replica: boolean }>("SELECT pg_is_in_recovery() AS replica");
  if (replica.rows[0]?.replica !== false)
    return { kind: "not_yet", why: `${command.node} is still a replica: it has not been promoted` };
  const done = await writeCommand(client, command, null);
  if (done !== "other_history") return { kind: done };
  return {
    kind: "refused",
    why: `${command.node} is of another history: it has no record of epoch ${command.ends}, which the report speaks of. Ask again`,
  };
}

/** Tried again while the node restarts, which RDS lets it do when it promotes. */
async function write(url: string, command: AuthorityCommand, waitMs: number): Promise<Attempt> {
  const untilMs = performance.now() + waitMs;
  for (;;) {
    const found = await once(url, command);
    if (found.kind !== "not_yet" || performance.now() >= untilMs) return found;
    await pause(POLL_MS);
  }
}

/**
 * SQLSTATEs of a server that starts, stops or recovers, and of a connection that broke. Any other
 * error of a server will not mend itself; one of the network may.
 */
const PASSING = /^(08|57P0[123]|25006|53300)/;

async function once(url: string, command: AuthorityCommand): Promise<Attempt> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_LIMIT_MS,
    query_timeout: STATEMENT_LIMIT_MS,
    application_name: "highwater-authorize",
  });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await attempt(client, command);
  } catch (cause) {
    if (cause instanceof pg.DatabaseError && !PASSING.test(cause.code ?? "")) throw cause;
    const message = cause instanceof Error ? cause.message : String(cause);
    return { kind: "not_yet", why: `${command.node} does not take it: ${message}` };
  } finally {
    await client.end().catch(() => undefined);
  }
}

interface Order {
  readonly node: string;
  readonly url: string;
  readonly waitMs: number;
  readonly report: string;
  /** Of the automation, for its log; null when a person runs it. */
  readonly run: string | null;
}

function readOrder(env: Readonly<Record<string, string | undefined>>): Order | string {
  const { AUTHORIZE_NODE: node = "", AUTHORIZE_REPORT: given = "", AUTHORIZE_WAIT_S: wait = "600" } = env;
  if (!/^[0-9]{1,4}$/.test(wait)) return "AUTHORIZE_WAIT_S must be a whole number of seconds";
  let url: string | undefined;
  try {
    const text = env["HIGHWATER_TOPOLOGY"] ?? "";
    const json = text.startsWith("@") ? readFileSync(text.slice(1), "utf8") : text;
    url = parseTopology(json).nodes.find(({ id }) => id === node)?.url;
  } catch (cause) {
    return `HIGHWATER_TOPOLOGY must be as the services have it: ${cause instanceof Error ? cause.message : String(cause)}`;
  }
  if (url === undefined) return `AUTHORIZE_NODE must be a node of the topology, and ${node || "none"} is not`;
  const report = given === "-" ? readFileSync(0, "utf8") : given;
  if (report === "")
    return "AUTHORIZE_REPORT must be the answer of failover-candidate --json --fenced, the line of a report, or - for standard input";
  return { node, url, waitMs: 1_000 * Number(wait), report, run: env["FAILOVER_RUN"] ?? null };
}

async function main(env: Readonly<Record<string, string | undefined>>): Promise<number> {
  const order = readOrder(env);
  if (typeof order === "string") {
    console.error(order);
    return EXIT.wrongEnvironment;
  }
  const read = readReport(order.report);
  if (!read.ok) {
    console.error(`AUTHORIZE_REPORT cannot be read: ${read.why}`);
    return EXIT.wrongEnvironment;
  }
  const refusal = whyNot(read.report, order.node, read.origin?.stage ?? null);
  if (refusal !== null) return finish(originOf(order), EXIT.refused, `refused: ${refusal}`);
  const command = commandOf(read.report, order.node);
  const done = await write(order.url, command, order.waitMs);
  switch (done.kind) {
    case "written":
    case "there":
      return finish(
        originOf(order),
        EXIT.done,
        `the operator's command ${command.id} for ${command.node} ${done.kind === "written" ? "is written" : "was there already"}`,
      );
    case "refused":
      return finish(originOf(order), EXIT.refused, `refused: ${done.why}`);
    case "not_yet":
      return finish(
        originOf(order),
        EXIT.notYet,
        `not done: ${done.why}. Run this again when it is writable`,
      );
  }
}

function originOf({ run }: Order): Origin | null {
  return run === null ? null : { run, stage: "authorize" };
}

if (import.meta.main)
  try {
    process.exitCode = await main(process.env);
  } catch (cause) {
    console.error(`not done: ${cause instanceof Error ? cause.message : String(cause)}`);
    process.exitCode = EXIT.failed;
  }
