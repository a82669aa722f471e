// `make attack`: runs attacks by strangers with keys of two tenants against a whole system.
// Options: --only ITEM,… (of docs/security.md). Exit codes: 0 when every attack was refused or
// harmless, 1 when one was not.
import { readOptions } from "@highwater/lab-tools/process";
import { attackAll, chosen } from "./run.ts";

const { values } = readOptions(import.meta.filename, { options: { only: { type: "string", default: "" } } });
const recipes = chosen(values.only.split(",").filter((item) => item !== ""));
const outcomes = await attackAll(recipes, ({ item, title, hit }) => {
  console.log(
    `${hit === null ? "held" : "HIT "}  ${item.padEnd(4)} ${title}${hit === null ? "" : `: ${hit}`}`,
  );
});
const hits = outcomes.filter(({ hit }) => hit !== null).length;
console.log(JSON.stringify({ recipes: outcomes.length, hits }));
process.exitCode = hits === 0 ? 0 : 1;
