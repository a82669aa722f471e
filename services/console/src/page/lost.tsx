// Lost transactions: whether their clients were answered, and what they contained, on request.
import { useState } from "preact/hooks";
import type { Answered, ContentsState, LostDetails, LostList, LostTransaction } from "@highwater/protocol";
import { messageOf } from "./api.ts";
import { formatDay, formatTime } from "./format.ts";
import { exportLost, lostPath } from "./lost-list.ts";
import { Badge, Notice, save, Section, useFocus } from "./parts.tsx";
import { Replay } from "./replay.tsx";
import { access, type Session } from "./session.ts";
import { type Column, DataTable } from "./table.tsx";
import { useAnswer } from "./use-answer.ts";

const ROWS = 50;
const REFRESH_MS = 5_000;

const LOST: readonly Column[] = [
  { title: "Transaction", kind: "head" },
  { title: "Reported" },
  { title: "Answered" },
  { title: "Contents" },
  { title: "Metadata", kind: "text" },
];
const CHOICE: Column = { title: "Bring back" };
const ANSWERED: Readonly<Record<Answered, string>> = { yes: "bad", no: "good", unknown: "waiting" };
const CONTENTS: Readonly<Record<ContentsState, string>> = {
  kept: "kept",
  not_kept: "not kept",
  over_limit: "over a limit",
  erased: "erased",
};

export function LostTransactions({ session }: { session: Session }) {
  const { api } = session;
  /** Where each page before the one that is shown began. */
  const [pages, setPages] = useState<readonly string[]>([""]);
  const [opened, open] = useState<LostTransaction | null>(null);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const after = pages.at(-1) ?? "";
  const path = lostPath(after, ROWS);
  const { answer, fault } = useAnswer<LostList>({ ask: () => api.get<LostList>(path), everyMs: REFRESH_MS }, [
    api,
    path,
  ]);
  const may = (scope: "contents:read" | "contents:replay"): boolean =>
    access.value.kind === "open" && access.value.scopes.has(scope);
  const [mayRead, mayReplay] = [may("contents:read"), may("contents:replay")];
  const choose = (id: string, isChosen: boolean): void => {
    const others = [...chosen].filter((each) => each !== id);
    setChosen(new Set(isChosen ? [...others, id] : others));
  };
  if (answer === null) return fault === "" ? null : <Notice tone="bad">{fault}</Notice>;
  const { lost, next } = answer;
  return (
    <Section title="Lost transactions">
      {fault !== "" && <Notice tone="bad">{fault}</Notice>}
      {lost.length === 0 ? (
        <p class="muted">This tracker lists no loss.</p>
      ) : (
        <>
          <Export session={session} withContents={mayRead} />
          <DataTable
            label="Lost transactions"
            columns={mayReplay ? [...LOST, CHOICE] : LOST}
            rows={lost.map((each) => ({
              key: `${each.id} ${each.attempt}`,
              cells: [
                ...lostCells(each, mayRead ? open : null),
                <input
                  type="checkbox"
                  aria-label={`Choose ${each.id}`}
                  checked={chosen.has(each.id)}
                  onChange={({ currentTarget: { checked } }) => choose(each.id, checked)}
                />,
              ],
            }))}
          />
          {lost.some(({ contents }) => contents === "not_kept") && (
            <p class="muted">
              What is not kept here, another tracker may have: open its console too. Bringing back asks all
              trackers.
            </p>
          )}
        </>
      )}
      {(pages.length > 1 || next !== null) && (
        <div class="row">
          <button type="button" disabled={pages.length === 1} onClick={() => setPages(pages.slice(0, -1))}>
            Earlier
          </button>
          <button type="button" disabled={next === null} onClick={() => setPages([...pages, next ?? ""])}>
            Later
          </button>
        </div>
      )}
      {mayReplay && lost.length > 0 && <Replay session={session} chosen={chosen} />}
      {opened !== null && <Contents key={opened.id} session={session} lost={opened} />}
    </Section>
  );
}

function lostCells(lost: LostTransaction, open: ((lost: LostTransaction) => void) | null) {
  const { id, lostAt, answered, contents, metadata } = lost;
  const atMs = Date.parse(lostAt);
  return [
    <a href={`#/transaction/${id}`}>
      <code>{id}</code>
    </a>,
    `${formatDay(atMs)} ${formatTime(atMs)}`,
    <Badge tone={ANSWERED[answered]}>{answered}</Badge>,
    contents === "kept" && open !== null ? (
      <button type="button" aria-label={`Show the contents of ${id}`} onClick={() => open(lost)}>
        Show
      </button>
    ) : (
      CONTENTS[contents]
    ),
    Object.entries(metadata ?? {})
      .map(([name, value]) => `${name}=${value}`)
      .join(", "),
  ];
}

function Export({ session, withContents }: { session: Session; withContents: boolean }) {
  const [said, say] = useState("");
  const run = (): void => {
    say("Reading.");
    exportLost(session.api, withContents).then(
      (text) => {
        save("highwater-lost.jsonl", text);
        say("Exported.");
      },
      (cause: unknown) => say(messageOf(cause)),
    );
  };
  return (
    <div class="row">
      <p class="grow" role="status">
        {said}
      </p>
      <button type="button" onClick={run}>
        {withContents ? "Export with contents" : "Export without contents"}
      </button>
    </div>
  );
}

const STATEMENTS: readonly Column[] = [
  { title: "Statement", kind: "text" },
  { title: "Parameters", kind: "text" },
  { title: "Answered" },
];

/** Opened by a button above: the focus follows. The audit log gets the reading. */
function Contents({ session: { api }, lost }: { session: Session; lost: LostTransaction }) {
  const { id, dependsOn } = lost;
  const { answer, fault } = useAnswer<LostDetails>(
    { ask: () => api.get<LostDetails>(`/v1/lost/${id}`), everyMs: REFRESH_MS, isLast: () => true },
    [api, id],
  );
  const heading = useFocus<HTMLHeadingElement>(answer !== null);
  if (answer === null) return <p role="status">{fault === "" ? "Reading the contents." : fault}</p>;
  const { kept, contents } = answer;
  return (
    <>
      <h3 ref={heading} tabIndex={-1}>
        Contents of <code>{id}</code>
      </h3>
      {kept === null ? (
        <p>{CONTENTS[contents]}</p>
      ) : (
        <>
          <p class="muted">
            Key {kept.key}, role {kept.role ?? "of the topology"}, {kept.isolation}.
            {kept.digest === null && " Not every result is known, so these contents are evidence only."}
          </p>
          <p>
            Lost ones that it may have read: {dependsOn === undefined ? "any, its order is not known" : null}
            {dependsOn?.ids.length === 0 && "none"}
            {dependsOn?.ids.map((each) => (
              <span key={each}>
                <a href={`#/transaction/${each}`}>
                  <code>{each}</code>
                </a>{" "}
              </span>
            ))}
            {dependsOn?.more === true && "and maybe others"}
          </p>
          <DataTable
            label={`Contents of ${id}`}
            columns={STATEMENTS}
            rows={kept.statements.map(({ sql, params = [], result }, at) => ({
              key: String(at),
              cells: [
                <code>{sql}</code>,
                params.length === 0 ? "" : <code>{JSON.stringify(params)}</code>,
                result === null ? "not known" : `${result.command} ${String(result.rowCount)}`,
              ],
            }))}
          />
        </>
      )}
    </>
  );
}
