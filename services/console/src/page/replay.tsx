// Brings lost transactions back: a dry run, its result for each, and the same again for real once
// the operator has read what it will do.
import { useState } from "preact/hooks";
import type { ReplayOutcome, ReplayReport, ReplayRequest } from "@highwater/protocol";
import { messageOf } from "./api.ts";
import { formatCount } from "./format.ts";
import { Badge, Notice, save, useFocus } from "./parts.tsx";
import { amount, resultText, summaryOf, whyText } from "./replay-text.ts";
import { type Session } from "./session.ts";
import { type Column, DataTable, ShowMore } from "./table.tsx";

const ROWS = 50;
/** The gateway runs every transaction before it answers. */
const CALL_LIMIT_MS = 600_000;

const ENDS: readonly Column[] = [
  { title: "Lost transaction", kind: "head" },
  { title: "Answered" },
  { title: "Outcome" },
  { title: "Why", kind: "text" },
  { title: "Its client got", kind: "text" },
  { title: "It would get now", kind: "text" },
];
const TONES = { replayed: "good", conflict: "waiting", unrecoverable: "bad" } as const;

interface Done {
  /** What was asked; the real run asks the same. */
  readonly request: ReplayRequest;
  readonly report: ReplayReport;
  /** The place of the call among those of this visit. */
  readonly number: number;
}

/** `chosen`: ids; empty stands for all. */
export function Replay({ session, chosen }: { session: Session; chosen: ReadonlySet<string> }) {
  const [byRows, setByRows] = useState(false);
  const [said, say] = useState("");
  const [done, setDone] = useState<Done | null>(null);
  const run = (request: ReplayRequest): void => {
    say(request.dryRun === true ? "The dry run is running." : "Bringing them back.");
    session.api.send<ReplayReport>("POST", "/v1/lost/replay", request, CALL_LIMIT_MS).then(
      (report) => {
        setDone((last) => ({ request, report, number: (last?.number ?? 0) + 1 }));
        say("");
      },
      // Those that were brought back by then stay so.
      (cause: unknown) => say(messageOf(cause)),
    );
  };
  const dryRun = (): void => {
    const ids = chosen.size === 0 ? {} : { ids: [...chosen] };
    run({ dryRun: true, independent: byRows ? "rows" : "none", ...ids });
  };
  return (
    <>
      <h3>Bring them back</h3>
      <div class="row">
        <div class="grow check">
          <input
            id="by-rows"
            type="checkbox"
            checked={byRows}
            onChange={({ currentTarget: { checked } }) => setByRows(checked)}
          />
          <label for="by-rows">
            Only common rows count: no client acted on what another lost transaction had shown to it
          </label>
        </div>
        <button type="button" onClick={dryRun}>
          {chosen.size === 0 ? "Dry run of all" : `Dry run of the ${formatCount(chosen.size)} chosen`}
        </button>
      </div>
      <p role="status">{said}</p>
      {done !== null && (
        <Result key={done.number} done={done} onApply={() => run({ ...done.request, dryRun: false })} />
      )}
    </>
  );
}

/** The focus follows the call that has ended. */
function Result({ done: { request, report }, onApply }: { done: Done; onApply: () => void }) {
  const [rows, setRows] = useState(ROWS);
  const [isAsked, ask] = useState(false);
  const { dryRun, transactions, trackers } = report;
  const heading = useFocus<HTMLHeadingElement>(true);
  const waiting = transactions.filter((each) => each.outcome === "replayed" && each.replayedBy === undefined);
  return (
    <>
      <h3 ref={heading} tabIndex={-1}>
        {dryRun ? "Result of the dry run" : "Result"}
      </h3>
      <p>{summaryOf(report)}</p>
      {trackers.answered < trackers.asked && (
        <Notice tone="waiting">
          Only {trackers.answered} of {trackers.asked} trackers answered. Another may list more, or have
          contents that these have not.
        </Notice>
      )}
      <DataTable
        label={dryRun ? "Result of the dry run" : "Result"}
        columns={ENDS}
        rows={transactions.slice(0, rows).map((each) => ({
          key: `${each.id} ${each.attempt}`,
          cells: endCells(each, dryRun),
        }))}
      />
      <ShowMore shown={rows} total={transactions.length} step={ROWS} onShow={setRows} />
      <div class="row">
        <button
          type="button"
          onClick={() => {
            const lines = transactions.map((each) => `${JSON.stringify({ dryRun, ...each })}\n`);
            save("highwater-replay.jsonl", lines.join(""));
          }}
        >
          Export the result
        </button>
        {dryRun && waiting.length > 0 && !isAsked && (
          <button type="button" onClick={() => ask(true)}>
            Bring {amount(waiting.length)} back
          </button>
        )}
      </div>
      {isAsked && (
        <Confirmation
          request={request}
          count={waiting.length}
          onCancel={() => ask(false)}
          onApply={() => {
            ask(false);
            onApply();
          }}
        />
      )}
    </>
  );
}

function Confirmation(props: {
  request: ReplayRequest;
  count: number;
  onCancel: () => void;
  onApply: () => void;
}) {
  const { request, count, onCancel, onApply } = props;
  const heading = useFocus<HTMLHeadingElement>(true);
  return (
    <div class="notice waiting" role="group" aria-labelledby="confirm">
      <h3 id="confirm" ref={heading} tabIndex={-1}>
        Bring {amount(count)} back?
      </h3>
      <p>
        {request.ids === undefined
          ? "Every lost transaction of this key's owner"
          : `Each of the ${formatCount(request.ids.length)} chosen`}{" "}
        is checked again. Where the result is still the same, a new transaction does it, under the original
        login role, and commits: nothing here undoes that. Conflicts and unrecoverable ones stay as they are.
        The audit log records each. Has your application run any of them again itself, under another id? Ask
        first: only a common key or row shows it.
      </p>
      <div class="row">
        <button type="button" onClick={onApply}>
          Bring them back
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </div>
  );
}

function endCells(end: ReplayOutcome, dryRun: boolean) {
  const { id, answered, outcome, replayedBy, lost, redone } = end;
  const isAhead = dryRun && outcome === "replayed" && replayedBy === undefined;
  return [
    <a href={`#/transaction/${id}`}>
      <code>{id}</code>
    </a>,
    answered,
    <Badge tone={TONES[outcome]}>{isAhead ? "would be replayed" : outcome}</Badge>,
    whyText(end),
    lost === undefined ? "" : resultText(lost),
    redone === undefined ? (
      ""
    ) : (
      <>
        <div>{resultText(redone)}</div>
        {redone.rows.map((row, at) => (
          <div key={at}>
            <code>{JSON.stringify(row)}</code>
          </div>
        ))}
      </>
    ),
  ];
}
