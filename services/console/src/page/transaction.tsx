// The life of one transaction, found by its token or its id.
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { VerdictsResponse } from "@highwater/protocol";
import { parseTxnId } from "@highwater/protocol/ids";
import { formatDay, formatTime } from "./format.ts";
import { Badge, Command, Notice, Section } from "./parts.tsx";
import type { Session } from "./session.ts";
import { type LevelVerdict, type Life, type Moment, momentsOf, toneOf } from "./timeline.ts";
import { useAnswer } from "./use-answer.ts";

const ASK_AGAIN_MS = 1_000;
const TOKEN = /^hw2_[\w-]+$/;
/** The id of a position-only token. */
const NO_ID = "00000000-0000-0000-0000-000000000000";

/** `argument`: an id or a token from the address. */
export function TransactionView({ session, argument }: { session: Session; argument: string }) {
  const field = useRef<HTMLInputElement>(null);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    location.hash = `#/transaction/${encodeURIComponent(text)}`;
  };
  return (
    <>
      <form class="row" onSubmit={submit}>
        <div class="grow">
          <label for="transaction">Token or id of a transaction</label>
          <input
            id="transaction"
            ref={field}
            key={argument}
            defaultValue={argument}
            autocomplete="off"
            spellcheck={false}
            placeholder="hw2_… or a UUIDv7"
          />
        </div>
        <button type="submit">Show</button>
      </form>
      {argument !== "" && <Found key={argument} session={session} text={argument} />}
    </>
  );
}

function Found({ session, text }: { session: Session; text: string }) {
  if (TOKEN.test(text)) return <ByToken session={session} token={text} />;
  const id = parseTxnId(text);
  if (id !== undefined) return <ById session={session} id={id} />;
  return <Notice tone="bad">This is neither a token (hw2_…) nor a UUIDv7.</Notice>;
}

interface Judged {
  readonly id: string;
  readonly verdicts: readonly LevelVerdict[];
}

function ByToken({ session, token }: { session: Session; token: string }) {
  const levels = session.live.levels.value;
  const names = levels.join(" ");
  useEffect(() => {
    session.log.open();
  }, [session]);
  const { answer: judged, fault } = useAnswer<Judged>(
    names === ""
      ? null
      : {
          ask: () => judge(session, token, names.split(" ")),
          everyMs: ASK_AGAIN_MS,
          isLast: ({ verdicts }) => !verdicts.some(({ verdict }) => verdict === "pending"),
        },
    [token, names, session.live.epochs.value],
  );
  if (judged === null)
    return fault === "" ? <p role="status">Asking the tracker.</p> : <Notice tone="bad">{fault}</Notice>;
  return (
    <>
      {fault !== "" && <Notice tone="bad">{fault}</Notice>}
      <LifeOf session={session} id={judged.id} verdicts={judged.verdicts} />
    </>
  );
}

/** Asks at every level. A refused token has no id. */
async function judge({ api }: Session, token: string, levels: readonly string[]): Promise<Judged> {
  const answers = await Promise.all(
    levels.map((level) =>
      api.send<VerdictsResponse>("POST", "/v1/durability/verdicts", { tokens: [token], level }),
    ),
  );
  const found = answers.flatMap(({ verdicts }) => verdicts);
  const refused = found.find((one) => "error" in one);
  if (refused !== undefined && "error" in refused) throw new Error(refused.error.detail);
  const verdicts = found.flatMap((one): (LevelVerdict & { id: string })[] => {
    if ("error" in one) return [];
    const { id, level, verdict, rule, position, settledAt } = one;
    return [{ id, level, verdict, rule, position, ...(settledAt === undefined ? {} : { settledAt }) }];
  });
  return { id: verdicts[0]?.id ?? NO_ID, verdicts };
}

function ById({ session, id }: { session: Session; id: string }) {
  useEffect(() => {
    session.log.open();
  }, [session]);
  const events = session.log.events.value;
  const known = events.some(({ data }) => "id" in data && data.id === id);
  if (known) return <LifeOf session={session} id={id} verdicts={[]} />;
  const command = `curl -s "$GATEWAY/v1/transactions/${id}"`;
  return (
    <Section title="No event has this id" wide>
      <p>
        {session.log.state.value === "reading" ? "The page is still reading the events. " : ""}
        Trackers record an event only for a transaction that is lost, broken or delayed. For all others, paste
        the token. If you have only the id, a gateway returns the token:
      </p>
      <Command label="ask a gateway" text={command} />
    </Section>
  );
}

function LifeOf(props: { session: Session; id: string; verdicts: readonly LevelVerdict[] }) {
  const { session, id, verdicts } = props;
  const { live, log } = session;
  const [events, durable] = [log.events.value, log.durable.value];
  const own = useMemo(
    () =>
      [...events, ...durable].filter(
        ({ type, data }) => type === "epoch.started" || ("id" in data && data.id === id),
      ),
    [events, durable, id],
  );
  const life: Life = {
    id,
    verdicts,
    events: own,
    epochs: live.epochs.value,
    marks: live.marks.value?.levels ?? {},
    history: live.history,
  };
  const metadata = own.flatMap(({ data }) => ("metadata" in data ? Object.entries(data.metadata ?? {}) : []));
  const pairs = [...new Map(metadata)];
  return (
    <div class="cards">
      <Section title={id === NO_ID ? "A position without an id" : id} wide>
        {verdicts.length > 0 && <Verdicts verdicts={verdicts} />}
        {pairs.length > 0 && (
          <dl class="pairs">
            {pairs.map(([name, value]) => [
              <dt key={`${name} name`}>{name}</dt>,
              <dd key={name}>{value}</dd>,
            ])}
          </dl>
        )}
      </Section>
      <Section title="Time line" wide>
        <ol class="timeline">
          {momentsOf(life).map((moment, at) => (
            <MomentItem key={at} moment={moment} />
          ))}
        </ol>
      </Section>
    </div>
  );
}

/** The time line says why. */
function Verdicts({ verdicts }: { verdicts: readonly LevelVerdict[] }) {
  return (
    <dl class="verdicts">
      {verdicts.map(({ level, verdict }) => (
        <div key={level}>
          <dt>{level}</dt>
          <dd>
            <Badge tone={toneOf(verdict)}>{verdict}</Badge>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function MomentItem({ moment: { atMs, title, detail, tone } }: { moment: Moment }) {
  return (
    <li class={tone}>
      <p>
        <strong>{title}</strong> {atMs !== null && <time>{`${formatDay(atMs)} ${formatTime(atMs)}`}</time>}
      </p>
      <p>{detail}</p>
    </li>
  );
}
