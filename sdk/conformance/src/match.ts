// Compares what happened with what a scenario expects: objects may have more fields than expected,
// everything else must be equal. A few strings are patterns: "*" is anything but null; "none" in an
// object means a field that is absent or null; "/…/" is a regular expression; ">= n" and "<= n" are
// bounds.

/** The differences, one per line. */
export function differences(expected: unknown, actual: unknown, path = ""): string[] {
  const differs = (): string[] => [
    `${path || "it"} is ${JSON.stringify(actual)}, not ${JSON.stringify(expected)}`,
  ];
  if (expected === "none") return actual === undefined || actual === null ? [] : differs();
  if (typeof expected === "string") return isMatch(expected, actual) ? [] : differs();
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual) || actual.length !== expected.length) return differs();
    return expected.flatMap((each, index) => differences(each, actual[index], `${path}[${String(index)}]`));
  }
  if (typeof expected === "object" && expected !== null) {
    if (typeof actual !== "object" || actual === null) return differs();
    return Object.entries(expected).flatMap(([key, each]) =>
      differences(each, (actual as Record<string, unknown>)[key], path === "" ? key : `${path}.${key}`),
    );
  }
  return Object.is(expected, actual) ? [] : differs();
}

function isMatch(expected: string, actual: unknown): boolean {
  if (expected === "*") return actual !== undefined && actual !== null;
  const pattern = /^\/(.*)\/$/.exec(expected)?.[1];
  if (pattern !== undefined) return typeof actual === "string" && new RegExp(pattern).test(actual);
  const bound = /^([<>])= (\d+)$/.exec(expected);
  if (bound !== null && typeof actual === "number")
    return bound[1] === ">" ? actual >= Number(bound[2]) : actual <= Number(bound[2]);
  return expected === actual;
}
