// docs/reference/terraform.md: inputs and outputs of every module and example of infra/terraform.
import { type Configuration, readConfigurations, type Variable } from "./hcl.ts";

const HEAD = `# Terraform modules and examples

\`make gen\` writes this page from the declarations in \`infra/terraform\`, and a test compares them. The
[README](../../infra/terraform/README.md) of the modules says what they are for, and [deploy-aws.md](../deploy-aws.md)
how to deploy an example. A plan fails if a value breaks a rule.`;

export async function renderTerraform(): Promise<string> {
  const configurations = await readConfigurations();
  return [HEAD, ...configurations.map(renderConfiguration), ""].join("\n\n").replace(/\n+$/, "\n");
}

function renderConfiguration({ kind, name, about, versions, variables, outputs }: Configuration): string {
  const needs = Object.entries(versions).map(([what, version]) => `${what} \`${version}\``);
  return [
    `## ${kind === "module" ? "Module" : "Example"} \`${name}\``,
    about,
    `In [infra/terraform/${kind}s/${name}](../../infra/terraform/${kind}s/${name}). Needs ${needs.join(", ")}.`,
    table(
      ["input", "type", "default", "what it is", "rules"],
      variables.map((variable) => [
        `\`${variable.name}\``,
        code(variable.type ?? "any"),
        fallbackOf(variable),
        variable.description,
        variable.rules.join(" "),
      ]),
    ),
    table(
      ["output", "what it is"],
      outputs.map((output) => [`\`${output.name}\``, output.description]),
    ),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

function fallbackOf({ fallback, ...variable }: Variable): string {
  const also = [variable.isSensitive && "sensitive", variable.isEphemeral && "ephemeral"].filter(
    (word) => word !== false,
  );
  const value = fallback === undefined ? "required" : code(valueOf(fallback));
  return [value, ...also].join(", ");
}

/** As HCL writes it. */
function valueOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(valueOf).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, inner]) => `${key} = ${valueOf(inner)}`);
  return entries.length === 0 ? "{}" : `{ ${entries.join(", ")} }`;
}

const code = (text: string): string => `\`${text}\``;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return "";
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
