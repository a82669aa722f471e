// A table with as many columns as there is room for; where there is too little, a list.
import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column {
  readonly title: string;
  /** `head` names the row; `text` may be long and has several lines. */
  readonly kind?: "head" | "text" | "number";
}

export interface Row {
  readonly key: string;
  /** In the order of the columns. An empty text stands for nothing. */
  readonly cells: readonly ComponentChildren[];
}

/**
 * Where the table is too wide, each row is a list of its cells with their titles. Roles are written
 * out, because browsers take them away from a table that is drawn as a list.
 */
export function DataTable(props: { label: string; columns: readonly Column[]; rows: readonly Row[] }) {
  const { label, columns, rows } = props;
  const frame = useRef<HTMLDivElement>(null);
  const isList = useIsList(frame);
  return (
    <div class={isList ? "table as-list" : "table"} ref={frame}>
      <table role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map(({ title, kind }) => (
              <th key={title} role="columnheader" scope="col" class={kind === "number" ? kind : undefined}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map(({ key, cells }) => (
            <tr key={key} role="row">
              {columns.map((column, at) => (
                <Cell key={column.title} column={column} content={cells[at]} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Under a table that shows the first `shown` of `total` rows. */
export function ShowMore(props: {
  shown: number;
  total: number;
  step: number;
  onShow: (rows: number) => void;
}) {
  const { shown, total, step, onShow } = props;
  if (total <= shown) return null;
  return (
    <button
      type="button"
      onClick={() => {
        onShow(shown + step);
      }}
    >
      Show {Math.min(step, total - shown)} more
    </button>
  );
}

function Cell({ column: { title, kind }, content }: { column: Column; content: ComponentChildren }) {
  if (kind === "head")
    return (
      <th role="rowheader" scope="row">
        {content}
      </th>
    );
  return (
    <td role="cell" class={content === "" ? `${kind ?? ""} empty` : kind} data-title={title}>
      <div>{content}</div>
    </td>
  );
}

/** It becomes a table again where there is as much room as it last wanted. */
function useIsList(frame: RefObject<HTMLElement | null>): boolean {
  const [isList, setIsList] = useState(false);
  const wanted = useRef(Number.POSITIVE_INFINITY);
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const look = (): void => {
      const { scrollWidth, clientWidth } = element;
      if (isList) {
        if (clientWidth >= wanted.current) setIsList(false);
      } else if (scrollWidth > clientWidth) {
        wanted.current = scrollWidth;
        setIsList(true);
      }
    };
    const changed = new ResizeObserver(look);
    for (const each of [element, ...element.children]) changed.observe(each);
    return () => {
      changed.disconnect();
    };
  }, [isList]);
  return isList;
}
