// Formats the report for an operator.
import { type CandidateReport } from "../../failover/report.ts";

export function printReport(report: CandidateReport): string {
  return [
    ...headline(report),
    ...table(nodeRows(report)),
    ...section("Levels, if it is promoted:", levelLines(report)),
    ...section("What each choice would lose:", lossLines(report)),
    ...section("Trackers:", trackerLines(report)),
    ...section("Next:", numbered(report.nextSteps)),
  ].join("\n");
}

function headline({ candidate, refusal, reasons, warnings, epoch, nodes }: CandidateReport): string[] {
  // With a primary that answers it is a switchover: it has to stop first.
  const doThis = nodes.some(({ standing }) => standing === "primary") ? "HAND OVER TO" : "PROMOTE";
  const of =
    epoch === null
      ? ""
      : ` (epoch ${String(epoch.seq)}, ${epoch.id}, began on ${epoch.primary}${epoch.earlier ? "; NOT the current one" : ""})`;
  const verdict =
    refusal === null
      ? `${doThis} ${candidate ?? "nobody"}${of}`
      : candidate === null
        ? `NO NODE TO PROMOTE: ${refusal}${of}`
        : `DO NOT PROMOTE YET: ${refusal}; the most advanced that answers is ${candidate}${of}`;
  return [
    verdict,
    ...reasons.map((line) => `  ${line}`),
    ...warnings.map((line) => `  WARNING: ${line}`),
    "",
  ];
}

const HEAD = ["  node", "region", "zone", "position", "is", "remark"];

function nodeRows({ nodes, candidate }: CandidateReport): string[][] {
  return [
    HEAD,
    ...nodes.map(({ node, region, zone, position, counted, standing, reason, fed }) => [
      node === candidate ? `* ${node}` : `  ${node}`,
      ...[region, zone, position ?? (counted === null ? "-" : `≥ ${counted}`), standing.replace("_", " ")],
      [reason, fed ? "its stream is open" : null].filter((text) => text !== null).join("; "),
    ]),
  ];
}

function levelLines({ levels }: CandidateReport): string[] {
  return levels.map(({ level, promise, domain, domains, answered, needed, broken }) => {
    const election =
      domain === null
        ? ""
        : ` · ${String(needed)} of ${String(domains.length)} ${domain}s must answer; answered: ${answered.join(", ") || "none"}`;
    switch (promise) {
      case "kept":
        return `${level}: kept${election}`;
      case "at_risk":
        return `${level}: AT RISK${election}`;
      case "broken":
        return `${level}: BROKEN, it has promised everything up to ${broken?.to ?? "?"}${election}`;
      case "not_covered":
        return `${level}: does not survive a change of the primary`;
    }
  });
}

function lossLines({ nodes }: CandidateReport): string[] {
  return nodes.flatMap(({ node, loss }) => {
    if (loss === null) return [];
    const { bytes, transactions, complete, promises, ids } = loss;
    const count =
      transactions === null
        ? "transactions: not known"
        : `${complete ? "" : "at least "}${String(transactions)} transactions`;
    const broken = promises.map(({ level, from, to }) => `, breaks ${level} (${from} to ${to})`).join("");
    return [`${node}: ${bytes ?? "?"} bytes of known log, ${count}${broken}`, ...ids.map((id) => `  ${id}`)];
  });
}

function trackerLines({ trackers }: CandidateReport): string[] {
  return trackers.map(({ tracker, answers, reason, follows, undecided }) => {
    if (!answers) return `${tracker}: does not answer: ${reason ?? ""}`;
    if (follows === null) return `${tracker}: answers`;
    const also = follows ? "" : ", follows another epoch";
    return `${tracker}: answers${also}; ${String(undecided ?? 0)} announced transactions of unknown end`;
  });
}

function numbered(lines: readonly string[]): string[] {
  return lines.map((line, at) => `${String(at + 1)}. ${line}`);
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ["", title, ...lines.map((line) => `  ${line}`)];
}

function table(rows: readonly string[][]): string[] {
  if (rows.length < 2) return [];
  const widths = HEAD.map((_title, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
