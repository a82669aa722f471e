// Goal: each field of the tracker's state is written by one module. Method: types make every field read-only but for the module that
// declares it by Own<>; here the declarations and the assignments are read in the sources, since a cast would pass the types.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const FOLDER = new URL("./", import.meta.url);
const SOURCES = new Map(
  readdirSync(FOLDER)
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
    .map((name) => [
      name,
      readFileSync(new URL(name, FOLDER), "utf8").replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, ""),
    ]),
);
const STATE = ["TrackerState", "Topology", "Ledger", "Proofs", "ExposureTotals"];
const PARTS = [
  "NodeState",
  "LedgerEntry",
  "OwnerAccount",
  "Source",
  "Departed",
  "OwnersDeparted",
  "LateArrivals",
];

const typesOfState = `${SOURCES.get("types.ts") ?? ""}${SOURCES.get("accounts.ts") ?? ""}`;
const fields = new Map(
  [...STATE, ...PARTS].map((name) => {
    const body = new RegExp(`interface ${name} \\{\\n(.*?)\\n\\}`, "s").exec(typesOfState)?.[1];
    assert.ok(body !== undefined, `there is no interface ${name}`);
    const members = [...body.matchAll(/^ {2}(readonly )?(\w+)\??:/gm)];
    for (const [, readonly, field] of members) assert.ok(readonly, `${name}.${field ?? ""} is not readonly`);
    return [name, members.map(([, , field]) => field ?? "")] as const;
  }),
);

/** By field ("Ledger.entries"), the modules that declare it as theirs. */
const owners = new Map<string, Set<string>>();
for (const [file, text] of SOURCES)
  for (const [, how, part, listed = "", whole = ""] of text.matchAll(
    /(Pick|Omit)<\s*Own<(\w+)>,([^>]*)>|(?<!as |type )Own<([\w |]+)>/g,
  ))
    for (const name of (part ?? whole).split(" | "))
      for (const field of fields.get(name) ?? []) {
        if (how !== undefined && listed.includes(`"${field}"`) !== (how === "Pick")) continue;
        const owned = `${name}.${field}`;
        owners.set(owned, (owners.get(owned) ?? new Set()).add(file));
      }

test("no two modules of the core write the same field of the state", () => {
  assert.ok(owners.size > 40);
  for (const [field, files] of owners) assert.equal(files.size, 1, `${field}: ${[...files].join()}`);
});

test("no module of the core assigns a field of the state that it does not own", () => {
  const names = new Set([...fields.values()].flat());
  const isOwned = (file: string, field: string): boolean =>
    [...owners].some(([owned, files]) => owned.endsWith(`.${field}`) && files.has(file));
  for (const [file, text] of SOURCES)
    for (const [, owner, field = "", call] of text.matchAll(
      /(\bthis)?\??\.(\w+)(?: (?:[-+|]|\?\?|)= |\+\+|--|\.(set|add|delete|clear|learnParent)\()/g,
    ))
      if (names.has(field) && owner === undefined)
        assert.ok(isOwned(file, field), `${file} writes ${field}${call === undefined ? "" : `.${call}()`}`);
  const assigners = [...SOURCES].filter(([, text]) => text.includes("Object.assign(")).map(([file]) => file);
  assert.deepEqual(assigners, ["ledger.ts"]);
});

test("every field of the four parts of the state has an owner", () => {
  for (const name of STATE.slice(1))
    for (const field of fields.get(name) ?? []) {
      // The nodes are those of the configuration, for good; what changes is a NodeState.
      if (field !== "nodes") assert.ok(owners.has(`${name}.${field}`), `${name}.${field} has no owner`);
    }
});
