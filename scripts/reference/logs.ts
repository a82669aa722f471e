// docs/reference/logs.md, from the catalogue.
import { LOG_EVENTS } from "@highwater/service";

export function logSections(): string[] {
  return LOG_EVENTS.flatMap(({ title, events }) => [
    "",
    `## ${title}`,
    "",
    "| event | level | meaning |",
    "| --- | --- | --- |",
    ...Object.entries(events).flatMap(([level, named]) =>
      Object.entries(named).map(([event, meaning]) => `| \`${event}\` | ${level} | ${meaning} |`),
    ),
  ]);
}
