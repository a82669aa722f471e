/** Releases before these lose writes or delete live data (advisories A-131639 and A-162085). */
const OLDEST = [25, 4, 5] as const;

/** To somebody who names such a server. */
export const COCKROACH_REFUSAL =
  "CockroachDB cannot be used yet: the adapter for it has never run against a CockroachDB server, and no service offers it until somebody has shown that it holds. make test-cockroach shows that, on two clusters of yours: docs/guide/choosing-a-store.md";

/** Why the server is none that the adapter is for; null if it is one. */
export function versionFault(text: string): string | null {
  const [, ...parts] = /CockroachDB\b.*?\bv(\d+)\.(\d+)\.(\d+)/.exec(text) ?? [];
  if (parts.length === 0) return `the server is no CockroachDB: ${text}`;
  for (const [at, least] of OLDEST.entries()) {
    const is = Number(parts[at]);
    if (is > least) return null;
    if (is < least)
      return `CockroachDB ${parts.join(".")} is older than ${OLDEST.join(".")}, the oldest supported one`;
  }
  return null;
}
