// Inputs and outputs of what is in infra/terraform: of each module in its README, and of the
// examples in docs/reference/terraform.md.
import { tableOf } from "@highwater/lab-tools/markdown";
import { type Configuration, readConfigurations, type Variable } from "./hcl.ts";

const HEAD = `# Terraform modules and examples

\`make gen\` writes this page from the declarations in \`infra/terraform\`, and a test compares them.
[deploy-aws.md](../deploy-aws.md) says how to deploy an example. A plan fails if a value breaks a rule.

The README of each [module](../../infra/terraform/README.md) has its inputs and outputs:`;

let reading: Promise<readonly Configuration[]> | undefined;
const readAll = (): Promise<readonly Configuration[]> => (reading ??= readConfigurations());

export async function renderTerraform(): Promise<string> {
  const all = await readAll();
  const modules = all
    .filter(({ kind }) => kind === "module")
    .map(({ name }) => `[${name}](../../infra/terraform/modules/${name}/README.md)`);
  const examples = all
    .filter(({ kind }) => kind === "example")
    .flatMap((example) => [
      `## Example \`${example.name}\``,
      example.about,
      `In [infra/terraform/examples/${example.name}](../../infra/terraform/examples/${example.name}). ${needsOf(example)}`,
      interfaceOf(example),
    ]);
  return `${[HEAD, `${modules.join(", ")}.`, ...examples].join("\n\n")}\n`;
}

/** The README of a module, with the first of its uses in the examples and the other modules. */
export async function renderModule(name: string): Promise<string> {
  const all = await readAll();
  const module = all.find((one) => one.kind === "module" && one.name === name);
  if (module === undefined) throw new Error(`there is no module ${name}`);
  const parts = [
    `# Module \`${name}\``,
    module.about,
    `${needsOf(module)} [All modules](../../README.md). \`make gen\` writes this page.`,
    "## Use",
    useOf(name, all),
    "## Inputs and outputs",
    "A plan fails if a value breaks a rule.",
    interfaceOf(module),
  ];
  return `${parts.join("\n\n")}\n`;
}

function useOf(name: string, all: readonly Configuration[]): string {
  const call = new RegExp(
    `^module "\\w+" \\{\\n *source += "\\.\\./(?:\\.\\./modules/)?${name}"$.*?^\\}$`,
    "ms",
  );
  for (const { kind, name: user, files } of all.toSorted((a, b) => a.kind.localeCompare(b.kind)))
    for (const text of files.values()) {
      const [use] = call.exec(text) ?? [];
      if (use !== undefined)
        return `In the ${kind} [${user}](../../${kind}s/${user}):\n\n\`\`\`hcl\n${use}\n\`\`\``;
    }
  throw new Error(`nothing uses the module ${name}`);
}

function needsOf({ versions }: Configuration): string {
  const needs = Object.entries(versions).map(([what, version]) => `${what} \`${version}\``);
  return `Needs ${needs.join(", ")}.`;
}

function interfaceOf({ variables, outputs }: Configuration): string {
  return [
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
  return rows.length === 0 ? "" : tableOf(head, rows);
}
