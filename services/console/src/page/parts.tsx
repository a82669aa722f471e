// Parts that several views share.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { clock } from "./session.ts";

const SAY_COPIED_MS = 2_000;

export function Section(props: { title: string; children: ComponentChildren; wide?: boolean }) {
  const id = `section-${props.title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return (
    <section class={props.wide === true ? "card wide" : "card"} aria-labelledby={id}>
      <h2 id={id}>{props.title}</h2>
      {props.children}
    </section>
  );
}

/** A table that scrolls by itself on a narrow screen, also with the keyboard. */
export function DataTable(props: { label: string; head: readonly string[]; children: ComponentChildren }) {
  return (
    <div class="scroll" role="group" aria-label={props.label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {props.head.map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
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

/** A command with a button that copies it. */
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
      <code>{props.text}</code>
      <button type="button" onClick={copy} aria-label={`Copy: ${props.label}`}>
        Copy
      </button>
      <span class="said" role="status">
        {said}
      </span>
    </div>
  );
}
