// Parts that several views share.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { formatLsn } from "./format.ts";
import { clock } from "./session.ts";

const SAY_COPIED_MS = 2_000;
const KEEP_LINK_MS = 60_000;

/** `takesFocus`: it was opened by something else on the page, and the reader goes on in it. */
export function Section(props: {
  title: string;
  children: ComponentChildren;
  wide?: boolean;
  takesFocus?: boolean;
}) {
  const { title, children, wide = false, takesFocus = false } = props;
  const id = `section-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  const heading = useFocus<HTMLHeadingElement>(takesFocus);
  return (
    <section class={wide ? "card wide" : "card"} aria-labelledby={id}>
      <h2 id={id} ref={heading} tabIndex={takesFocus ? -1 : undefined}>
        {title}
      </h2>
      {children}
    </section>
  );
}

/** The element gets the focus once it is there. */
export function useFocus<T extends HTMLElement>(isThere: boolean) {
  const element = useRef<T>(null);
  useEffect(() => {
    if (isThere) element.current?.focus();
  }, [isThere]);
  return element;
}

export function Figure(props: {
  label: string;
  value: string;
  tone?: "good" | "bad" | "waiting" | undefined;
}) {
  return (
    <div class={`figure ${props.tone ?? ""}`}>
      <dt>{props.label}</dt>
      <dd>{props.value}</dd>
    </div>
  );
}

/** A list to choose from. `none`: the text of the empty choice, if there is one. */
export function Choice<T extends string>(props: {
  id: string;
  label: string;
  value: T;
  choices: readonly T[];
  none?: string;
  onChoose: (value: T) => void;
}) {
  const { id, label, value, choices, none, onChoose } = props;
  return (
    <div>
      <label for={id}>{label}</label>
      <select
        id={id}
        value={value}
        onChange={({ currentTarget }) => {
          onChoose(currentTarget.value as T);
        }}
      >
        {none !== undefined && <option value="">{none}</option>}
        {choices.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    </div>
  );
}

export function Badge(props: { tone: string; children: ComponentChildren }) {
  return <span class={`badge ${props.tone}`}>{props.children}</span>;
}

export function Notice(props: { tone: "bad" | "waiting" | "neutral"; children: ComponentChildren }) {
  return (
    <p class={`notice ${props.tone}`} role="status">
      {props.children}
    </p>
  );
}

/** A position, as PostgreSQL prints it. */
export function Position({ offset }: { offset: string | number }) {
  return <code>{formatLsn(offset)}</code>;
}

/** A command with a button that copies it. Its lines break between words alone. */
export function Command(props: { label: string; text: string }) {
  const [said, say] = useState("");
  const copy = (): void => {
    const done = (text: string) => (): void => {
      say(text);
      clock.after(SAY_COPIED_MS, () => {
        say("");
      });
    };
    // A page that was not served over TLS or from this machine has no clipboard.
    const clipboard = (navigator as { readonly clipboard?: Clipboard }).clipboard;
    if (clipboard === undefined) done("Select the text and copy it.")();
    else clipboard.writeText(props.text).then(done("Copied."), done("Select the text and copy it."));
  };
  return (
    <div class="command">
      <code>
        {props.text.split(" ").map((word, at) => [
          " ",
          <span key={at} class="word">
            {word}
          </span>,
        ])}
      </code>
      <button type="button" onClick={copy} aria-label={`Copy: ${props.label}`}>
        Copy
      </button>
      <span class="said" role="status">
        {said}
      </span>
    </div>
  );
}

/** Gives the browser a file of JSON lines. */
export function save(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  clock.after(KEEP_LINK_MS, () => {
    URL.revokeObjectURL(url);
  });
}
