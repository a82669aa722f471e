// A map of the links: the primary on the left, the replicas on the right, and on each link how far
// the replica is behind. The table of nodes beside it has the same as text.
import { formatBytes, formatMs } from "./format.ts";
import type { NodeRow } from "./metrics-text.ts";

const WIDTH = 760;
const BOX = { width: 190, height: 54 };
const ROW_HEIGHT = 76;
const RIGHT = WIDTH - BOX.width - 1;

export function LinkMap({ nodes }: { nodes: readonly NodeRow[] }) {
  const primary = nodes.find(({ isPrimary }) => isPrimary);
  const replicas = nodes.filter(({ isPrimary }) => !isPrimary);
  if (primary === undefined || replicas.length === 0) return null;
  const height = replicas.length * ROW_HEIGHT;
  const middle = height / 2;
  return (
    <svg
      class="map"
      viewBox={`0 0 ${String(WIDTH)} ${String(height)}`}
      role="img"
      aria-label={`${primary.node} sends its log to ${replicas.map(({ node }) => node).join(", ")}`}
    >
      {replicas.map((row, at) => (
        <Link key={row.node} row={row} fromY={middle} toY={at * ROW_HEIGHT + ROW_HEIGHT / 2} />
      ))}
      <NodeBox row={primary} x={1} y={middle} />
      {replicas.map((row, at) => (
        <NodeBox key={row.node} row={row} x={RIGHT} y={at * ROW_HEIGHT + ROW_HEIGHT / 2} />
      ))}
    </svg>
  );
}

function NodeBox({ row, x, y }: { row: NodeRow; x: number; y: number }) {
  const kind = row.isAlive ? (row.isPrimary ? "is-primary" : "") : "is-silent";
  return (
    <g class={`node ${kind}`} transform={`translate(${String(x)} ${String(y - BOX.height / 2)})`}>
      <rect width={BOX.width} height={BOX.height} rx="8" />
      <text x="14" y="23" class="name">
        {row.node}
      </text>
      <text x="14" y="42" class="small">
        {row.region === row.node ? "" : `${row.region}, `}
        {row.isPrimary ? "primary" : "replica"}
        {row.isAlive ? "" : ", no answer"}
      </text>
    </g>
  );
}

function Link({ row, fromY, toY }: { row: NodeRow; fromY: number; toY: number }) {
  const [fromX, toX] = [BOX.width + 1, RIGHT];
  return (
    <g class={`link ${linkState(row)}`}>
      <line x1={fromX} y1={fromY} x2={toX} y2={toY} />
      <text x={toX - 14} y={toY + (fromY >= toY ? -9 : 20)} text-anchor="end" class="small">
        {linkText(row)}
      </text>
    </g>
  );
}

function linkState({ isAlive, position, lagBytes }: NodeRow): string {
  if (!isAlive || position === null) return "is-cut";
  return (lagBytes ?? 0) > 0 ? "is-behind" : "";
}

function linkText({ position, lagBytes, lagMs }: NodeRow): string {
  if (position === null) return "position not known";
  if (lagBytes === null || lagBytes === 0) return "has all of the log";
  return `${formatBytes(lagBytes)}${lagMs === null || lagMs === 0 ? "" : `, ${formatMs(lagMs)}`} behind`;
}
