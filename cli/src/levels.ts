// The levels that nodes can have, and what each means, in plain words.
import { DEFAULT_LEVELS, failureDomain, type LevelRule } from "@highwater/protocol";

interface Site {
  readonly region: string;
  readonly zone: string;
}

export interface ExplainedLevel {
  readonly name: string;
  readonly means: string;
  readonly survives: string;
  readonly doesNotSurvive: string;
  readonly takes: string;
}

/** The levels that these nodes can reach, weakest first. */
export function levelsFor(sites: readonly Site[]): Record<string, LevelRule> {
  const regions = new Set(sites.map(({ region }) => region)).size;
  const zones = new Set(sites.map((site) => failureDomain(site, "zone"))).size;
  const { disk, region, global } = DEFAULT_LEVELS;
  return {
    ...(disk !== undefined && { disk }),
    // Where there are more zones than regions, a zone is worth a level of its own.
    ...(zones > regions && { zone: { replicas: 1, outside: "zone" as const } }),
    ...(regions > 1 && region !== undefined && { region }),
    ...(regions > 1 && global !== undefined && { global }),
  };
}

const count = (number: number, what: string): string => `${String(number)} ${what}${number === 1 ? "" : "s"}`;

export function explainLevel(name: string, rule: LevelRule, sites: readonly Site[]): ExplainedLevel {
  const regions = new Set(sites.map(({ region }) => region)).size;
  if ("primary" in rule)
    return {
      name,
      means: "the transaction is on the primary's disk",
      survives: "a crash of the primary, if it comes back with its disk",
      doesNotSurvive: "the loss of that disk, and every change of the primary to another node",
      takes: "one flush",
    };
  if ("regions" in rule)
    return {
      name,
      means: `it is on a disk in every region (${String(regions)})`,
      survives: "the loss of all regions but one",
      doesNotSurvive: "the loss of all regions. While one region is down, nothing becomes durable",
      takes: "a round trip to the farthest region",
    };
  if ("synchronous" in rule)
    return {
      name,
      means: `it is on ${count(rule.synchronous, "synchronous standby")}, which is all that the HA manager may promote`,
      survives: "the loss of the primary, whichever standby is promoted",
      doesNotSurvive: "the loss of the primary and all of these standbys at once",
      takes: "a round trip to the slowest of them",
    };
  const { replicas, outside } = rule;
  const others = new Set(sites.map((site) => failureDomain(site, outside))).size - 1;
  const must = Math.max(others - replicas + 1, 1);
  const further = replicas === 1 ? "" : ` and of ${count(replicas - 1, `further ${outside}`)}`;
  return {
    name,
    means: `it is on the primary's disk and in ${replicas === 1 ? `one other ${outside}` : `${String(replicas)} other ${outside}s`}`,
    survives: `the loss of the primary's ${outside}${further}. ${String(must)} of the ${count(others, `other ${outside}`)} must answer then, and the most advanced node must be promoted`,
    doesNotSurvive: `the loss of ${String(replicas + 1)} ${outside}s at once`,
    takes: `a round trip to the ${replicas === 1 ? "" : `${String(replicas)}. `}nearest other ${outside}`,
  };
}

export function printLevel({ name, means, survives, doesNotSurvive, takes }: ExplainedLevel): string[] {
  return [
    `  ${name}: durable means that ${means}. Takes ${takes}.`,
    `    Survives ${survives}.`,
    `    Does not survive ${doesNotSurvive}.`,
  ];
}
