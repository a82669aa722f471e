// A processor profile of a service, which Node writes when the service stops.

/**
 * The service's environment for a profile in `folder`. Node names the file where no `name` is
 * given.
 */
export function profileEnv(folder: string | undefined, name?: string): Record<string, string> {
  if (folder === undefined) return {};
  const flags = ["--cpu-prof", `--cpu-prof-dir=${folder}`];
  if (name !== undefined) flags.push(`--cpu-prof-name=${name}.cpuprofile`);
  // Node splits the variable at spaces outside quotes.
  return { NODE_OPTIONS: flags.map((flag) => JSON.stringify(flag)).join(" ") };
}
