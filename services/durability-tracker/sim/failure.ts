// A failed run in readable words: its history, made small, and the command that plays it again.
import { playScript, type Script, shrink } from "./run.ts";

export async function describeFailure(
  where: { readonly series: number; readonly n: number },
  script: Script,
): Promise<string> {
  const small = await shrink(script);
  const { failure, play } = await playScript(small, undefined, true);
  const { series, n } = where;
  return [
    `run ${String(n)} of seed ${String(series)} failed: ${failure?.message ?? ""}`,
    `setting: ${JSON.stringify(small.setting)}`,
    `${String(small.ops.length)} of ${String(script.ops.length)} operations are left:`,
    ...small.ops.map(({ name, seed }) => `  ${name} ${String(seed)}`),
    "what happened:",
    ...(play.lines ?? []).map((line) => `  ${line}`),
    failure?.stack ?? "",
    `again: make sim SEED=${String(series)} RUN=${String(n)}`,
  ].join("\n");
}
