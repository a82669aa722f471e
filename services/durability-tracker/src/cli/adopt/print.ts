// Formats the answer for an operator.
import { type AdoptResult } from "./run.ts";

export function printResult({ plan, command, epoch }: AdoptResult): string {
  const { node, givenUp, trackers, obstacles, hasHistory } = plan;
  return [
    headline({ plan, command, epoch }),
    "",
    "Gives up these epochs:",
    ...givenUp.map(
      ({ seq, id, node: on, startedAt }) => `  ${String(seq)}  ${id}  began on ${on} at ${startedAt}`,
    ),
    ...(givenUp.length === 0 ? ["  none"] : []),
    "",
    "As far as trackers know:",
    ...trackers.map(
      ({ tracker, epoch: of, pending, undecided, promised }) =>
        `  ${tracker}, epoch ${of}: ${String(pending)} pending, ${String(undecided)} undecided; promised up to ${
          Object.entries(promised)
            .map(([level, offset]) => `${level} ${offset}`)
            .join(", ") || "nothing"
        }`,
    ),
    ...(hasHistory
      ? []
      : [
          "",
          `${node} has no tables of Highwater: API keys, webhook endpoints and recorded events are gone as well.`,
        ]),
    ...(obstacles.length === 0 ? [] : ["", "In the way:", ...obstacles.map((line) => `  ${line}`)]),
    ...(command === null && obstacles.length === 0
      ? [
          "",
          "To act: --data intact (only Highwater's tables are gone) or --data restored, with --reason and --by.",
        ]
      : []),
  ].join("\n");
}

function headline({ plan, command, epoch }: Pick<AdoptResult, "plan" | "command" | "epoch">): string {
  if (epoch !== null) return `ADOPTED ${plan.node}: epoch ${epoch} has begun (command ${command ?? ""})`;
  if (command !== null)
    return `NOT YET: command ${command} is written on ${plan.node}, but no process has begun an epoch. Check the trackers' /readyz`;
  return plan.obstacles.length > 0
    ? `CANNOT ADOPT ${plan.node}`
    : `ADOPTING ${plan.node} gives up the following; nothing is changed yet`;
}
