// Parts that several views share.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { clock } from "./session.ts";

const SAY_COPIED_MS = 2_000;

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

/** A table that scrolls by itself where it is too wide, and only there is a stop of the keyboard. */
export function DataTable(props: { label: string; head: readonly string[]; children: ComponentChildren }) {
  const { label, head, children } = props;
  const frame = useRef<HTMLDivElement>(null);
  const isTooWide = useIsTooWide(frame);
  const stop = isTooWide ? ({ role: "group", tabIndex: 0, "aria-label": `${label}, scrolls` } as const) : {};
  return (
    <div class="scroll" ref={frame} {...stop}>
      <table aria-label={label}>
        <thead>
          <tr>
            {head.map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

function useIsTooWide(frame: RefObject<HTMLElement>): boolean {
  const [isTooWide, setTooWide] = useState(false);
  useEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const changed = new ResizeObserver(() => {
      setTooWide(element.scrollWidth > element.clientWidth);
    });
    for (const each of [element, ...element.children]) changed.observe(each);
    return () => {
      changed.disconnect();
    };
  }, []);
  return isTooWide;
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
