// The commands of `lost`: calls of a tracker's API about lost transactions and their contents.
import {
  type ErasedContents,
  type LostDetails,
  type LostList,
  type LostTransaction,
  type ReplayOutcome,
  type ReplayReport,
} from "@highwater/protocol";
import { ownerTag } from "@highwater/service";
import { type Call } from "./command.ts";
import { badInput } from "./refusal.ts";
import { type Service, serviceAt } from "./services.ts";
import { asTable } from "./table.ts";

const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const FILTERS = ["since", "contents", "answered", "limit", "after"] as const;
const EXIT_DONE = 0;
const EXIT_NOT_KEPT = 3;
const EXIT_NOT_ALL = 3;

export async function list(call: Call): Promise<number> {
  const { given, print, note } = call;
  given.none();
  const page = await pageOf(trackerOf(call, "read"), filtersOf(call));
  if (given.flag("json")) print(JSON.stringify(page, null, 2));
  else {
    print(page.lost.length === 0 ? "This tracker lists no loss." : asRows(page.lost).join("\n"));
    if (page.next !== null) note(`There are more: --after ${page.next}`);
  }
  return EXIT_DONE;
}

export async function show(call: Call): Promise<number> {
  const { given, print } = call;
  const id = given.only("id");
  if (id === null || !ID.test(id)) throw badInput("name the id of a lost transaction");
  const found = await detailsOf(trackerOf(call, "contents:read"), id);
  print(given.flag("json") ? JSON.stringify(found, null, 2) : asText(found).join("\n"));
  return found.kept === null ? EXIT_NOT_KEPT : EXIT_DONE;
}

/** Prints each loss with its contents as a line of JSON, oldest first. */
export async function exported(call: Call): Promise<number> {
  const { given, print, note } = call;
  given.none();
  const tracker = trackerOf(call, "contents:read");
  const filters = filtersOf(call);
  let [count, kept] = [0, 0];
  for (let next: string | null = ""; next !== null;) {
    if (next !== "") filters.set("after", next);
    const page: LostList = await pageOf(tracker, filters);
    for (const each of page.lost) {
      const line: LostDetails =
        each.contents === "kept" ? await detailsOf(tracker, each.id) : { ...each, kept: null };
      print(JSON.stringify(line));
      count++;
      if (line.kept !== null) kept++;
    }
    ({ next } = page);
  }
  note(`${String(count)} lost transactions, ${String(kept)} with contents, from ${tracker.url}`);
  return EXIT_DONE;
}

/** A dry run, without `--apply`. */
export async function replay(call: Call): Promise<number> {
  const { given, env, print, note } = call;
  const ids = given.positionals;
  if (ids.some((id) => !ID.test(id))) throw badInput("name ids of lost transactions");
  if (given.flag("all") === ids.length > 0) throw badInput("name lost transactions, or give --all");
  const independent = given.text("independent");
  const gateway = serviceAt(given.text("url"), ["HIGHWATER_URL"], env, "contents:replay");
  const dryRun = !given.flag("apply");
  const response = await gateway.fetch("/v1/lost/replay", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      dryRun,
      ...(ids.length > 0 && { ids }),
      ...(independent !== null && { independent }),
    }),
  });
  const report = (await response.json()) as ReplayReport;
  if (given.flag("json")) print(JSON.stringify(report, null, 2));
  else {
    const rows = report.transactions.map((each) => [each.id, each.answered, each.outcome, whyOf(each)]);
    print(asTable([["transaction", "answered", "outcome", "why"], ...rows], "").join("\n"));
    const { lostWrites, replayed, conflicts, unrecoverable } = report;
    print(
      `${String(lostWrites)} lost writes = ${String(replayed)} replayed + ${String(conflicts)} conflicts + ${String(unrecoverable)} unrecoverable`,
    );
  }
  const { asked, answered } = report.trackers;
  if (answered < asked) note(`Only ${String(answered)} of ${String(asked)} trackers answered.`);
  if (dryRun) note("This was a dry run. Give --apply to bring them back.");
  return report.replayed === report.lostWrites ? EXIT_DONE : EXIT_NOT_ALL;
}

function whyOf({ reason, kind, because, error, replayedBy }: ReplayOutcome): string {
  const by = replayedBy === undefined ? "" : `by ${replayedBy}`;
  return [reason?.replaceAll("_", " "), kind, because, error, by].filter(Boolean).join(" ");
}

export async function erase(call: Call): Promise<number> {
  const { given, print } = call;
  given.none();
  const [owner, tag] = [given.text("owner"), given.text("owner-tag")];
  if ((owner === null) === (tag === null)) throw badInput("give either --owner or --owner-tag");
  const whose = tag ?? String(ownerTag(owner ?? ""));
  const tracker = trackerOf(call, "admin");
  const response = await tracker.fetch(
    `/v1/lost/contents?${new URLSearchParams({ owner: whose }).toString()}`,
    {
      method: "DELETE",
    },
  );
  const answer = (await response.json()) as ErasedContents;
  print(
    given.flag("json")
      ? JSON.stringify(answer, null, 2)
      : `Erased the contents of ${String(answer.erased)} transactions; contents of ids up to ${answer.through} are refused.`,
  );
  return EXIT_DONE;
}

function trackerOf({ given, env }: Call, scope: string): Service {
  return serviceAt(given.text("tracker"), ["HIGHWATER_TRACKERS", "HIGHWATER_URL"], env, scope);
}

function filtersOf({ given }: Call): URLSearchParams {
  const query = new URLSearchParams();
  for (const name of FILTERS) {
    const value = given.text(name);
    if (value !== null) query.set(name, value);
  }
  return query;
}

async function pageOf(tracker: Service, query: URLSearchParams): Promise<LostList> {
  const path = `/v1/lost${query.size > 0 ? `?${query.toString()}` : ""}`;
  return (await (await tracker.fetch(path)).json()) as LostList;
}

async function detailsOf(tracker: Service, id: string): Promise<LostDetails> {
  return (await (await tracker.fetch(`/v1/lost/${id}`)).json()) as LostDetails;
}

function asRows(lost: readonly LostTransaction[]): readonly string[] {
  const rows = lost.map(({ id, lostAt, answered, contents, settledAt, dependsOn, metadata }) => [
    ...[id, lostAt, answered, contents.replaceAll("_", " "), settledAt ?? ""],
    dependsOn === undefined ? "not known" : `${String(dependsOn.ids.length)}${dependsOn.more ? "+" : ""}`,
    metadata === undefined ? "" : JSON.stringify(metadata),
  ]);
  return asTable(
    [["transaction", "lost at", "answered", "contents", "proven at", "depends on", "metadata"], ...rows],
    "",
  );
}

function asText({ kept, dependsOn, ...lost }: LostDetails): string[] {
  const facts = [
    `${lost.id}: lost`,
    `  published  ${lost.lostAt}`,
    `  answered   ${lost.answered}`,
    `  contents   ${lost.contents.replaceAll("_", " ")}`,
    `  depends on ${dependsOn === undefined ? "not known" : [...dependsOn.ids, ...(dependsOn.more ? ["and more"] : [])].join(", ") || "no other lost transaction"}`,
  ];
  if (kept === null) return facts;
  const statements = kept.statements.flatMap(({ sql, params = [], result }) => [
    "",
    sql,
    ...(params.length === 0 ? [] : [`  parameters  ${JSON.stringify(params)}`]),
    `  answered    ${result === null ? "not known" : `${result.command} ${String(result.rowCount)}`}`,
  ]);
  return [
    ...facts,
    `  role       ${kept.role ?? "that of the topology"}`,
    `  isolation  ${kept.isolation}`,
    ...statements,
  ];
}
