// Before a failover: the replicas that could be promoted, what each would lose as far as this
// tracker knows, and the commands to copy.
import { useState } from "preact/hooks";
import type { EpochRecord } from "@highwater/protocol";
import type { Api } from "./api.ts";
import {
  candidateCommand,
  candidatesOf,
  type Preview,
  type PreviewCandidate,
  promotionSteps,
  rank,
  unjudged,
} from "./candidates.ts";
import { formatBytes, formatCount } from "./format.ts";
import { Badge, Choice, Command, Notice, Position, Section } from "./parts.tsx";
import { served, type Session } from "./session.ts";
import { type Column, DataTable } from "./table.tsx";
import { useAnswer } from "./use-answer.ts";

const ASK_AGAIN_MS = 2_000;
const LISTED = 20;

export function BeforeView({ session }: { session: Session }) {
  const current = session.live.epochs.value.at(-1);
  const { answer: preview, fault } = useAnswer(
    current === undefined ? null : { ask: () => previewOf(session.api, current), everyMs: ASK_AGAIN_MS },
    [current?.id],
  );
  if (current === undefined) return <p role="status">No epoch is known yet.</p>;
  return (
    <>
      {fault !== "" && <Notice tone="bad">{fault}</Notice>}
      {preview !== null && <Candidates session={session} preview={preview} current={current} />}
    </>
  );
}

/** First for the positions that the tracker has counted, then for what each of them would lose. */
async function previewOf(api: Api, { id, node }: EpochRecord): Promise<Preview> {
  const ask = (candidates: readonly { node: string; offset: string }[]): Promise<Preview> =>
    api.send("POST", "/v1/durability/failover-preview", { epoch: id, candidates, list: LISTED });
  const known = await ask([{ node, offset: "0" }]);
  const candidates = candidatesOf(known, node);
  return candidates.length === 0 ? { ...known, candidates: [] } : ask(candidates);
}

const CANDIDATES: readonly Column[] = [
  { title: "Node", kind: "head" },
  { title: "Flushed" },
  { title: "Log lost", kind: "number" },
  { title: "Transactions lost", kind: "text" },
  { title: "Promises broken" },
];

function Candidates(props: { session: Session; preview: Preview; current: EpochRecord }) {
  const { session, preview, current } = props;
  const candidates = rank(preview.candidates);
  const rows = session.live.measured.value?.nodes ?? [];
  const regionOf = new Map(rows.map(({ node, region }) => [node, region]));
  const missing = unjudged(rows, candidates);
  const [first] = candidates;
  const [chosen, setChosen] = useState("");
  const node = candidates.some((one) => one.node === chosen) ? chosen : (first?.node ?? "");
  return (
    <>
      <Section title="Candidates">
        <p>
          The primary is <strong>{current.node}</strong>. The table says what this tracker knows that a
          promotion of each replica would lose now. Before you promote one, run the command below: it asks
          every node and every tracker.
        </p>
        <Command label="name the node to promote" text={candidateCommand(location.origin)} />
        <DataTable
          label="Candidates"
          columns={CANDIDATES}
          rows={candidates.map((one, at) => ({
            key: one.node,
            cells: candidateCells(one, { region: regionOf.get(one.node) ?? "", isFirst: at === 0 }),
          }))}
        />
        {candidates.length === 0 && (
          <Notice tone="bad">This tracker has counted no replica's position yet.</Notice>
        )}
        {missing.length > 0 && <p class="muted">Not known: {missing.map((row) => row.node).join(", ")}.</p>}
        {preview.undecided > 0 && (
          <p class="muted">
            {formatCount(preview.undecided)} transactions were announced, and it is not known how they ended.
          </p>
        )}
      </Section>
      {node !== "" && (
        <Section title="Promote by hand">
          <div class="row">
            <Choice
              id="candidate"
              label="Node"
              value={node}
              choices={candidates.map((one) => one.node)}
              onChoose={setChosen}
            />
          </div>
          <Steps node={node} primary={current.node} />
        </Section>
      )}
    </>
  );
}

function candidateCells(candidate: PreviewCandidate, of: { region: string; isFirst: boolean }) {
  const { node, offset, bytes, transactions, complete, promises, ids } = candidate;
  const count = `${complete ? "" : "at least "}${formatCount(transactions)}`;
  return [
    <>
      {node} {of.isFirst && <Badge tone="accent">most advanced</Badge>}
      {of.region !== node && <div class="muted">{of.region}</div>}
    </>,
    <Position offset={offset} />,
    formatBytes(BigInt(bytes)),
    transactions === 0 ? (
      count
    ) : (
      <details>
        <summary>{count}</summary>
        {ids.map((id) => (
          <div key={id}>
            <code>{id}</code>
          </div>
        ))}
      </details>
    ),
    promises.length === 0 ? (
      <Badge tone="good">none</Badge>
    ) : (
      <Badge tone="bad">{promises.map(({ level }) => level).join(", ")}</Badge>
    ),
  ];
}

function Steps({ node, primary }: { node: string; primary: string }) {
  return (
    <ol>
      {promotionSteps(node, { primary, authority: served("authority") }).map(({ text, command }) => (
        <li key={text}>
          {text}
          {command !== null && <Command label={text} text={command} />}
        </li>
      ))}
    </ol>
  );
}
