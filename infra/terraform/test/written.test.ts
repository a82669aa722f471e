// What every module and example owes its reader: types, descriptions, rules, tags, and a reason for each wildcard in
// a policy. Read by HCL's parser; needs no Terraform.
import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { type Configuration, readConfigurations } from "../../../scripts/reference/hcl.ts";
import { undefendedStars } from "./stars.ts";
import { EXAMPLES, MODULES } from "./tools.ts";

const SENTENCES = /^\S.*[.?)]$/;

describe("the sources of the Terraform modules", () => {
  let all: readonly Configuration[];
  before(async () => {
    all = await readConfigurations();
  });

  it("is read whole", () => {
    const names = (kind: string): string[] => all.filter((one) => one.kind === kind).map(({ name }) => name);
    assert.deepEqual(names("module"), MODULES);
    assert.deepEqual(names("example"), EXAMPLES);
    // As many as a plain search finds: nothing is lost on the way through the parser.
    for (const { name, files, variables, outputs } of all) {
      const text = [...files.values()].join("\n");
      assert.equal(variables.length, text.match(/^variable "/gm)?.length ?? 0, name);
      assert.equal(outputs.length, text.match(/^output "/gm)?.length ?? 0, name);
    }
  });

  for (const [kind, name] of [
    ...MODULES.map((module) => ["module", module] as const),
    ...EXAMPLES.map((example) => ["example", example] as const),
  ])
    describe(`${kind} ${name}`, () => {
      const itself = (): Configuration => {
        const found = all.find((one) => one.kind === kind && one.name === name);
        assert.ok(found !== undefined);
        return found;
      };

      it("describes itself, and names the versions that it needs", () => {
        const { about, versions } = itself();
        assert.match(about, /^[A-Z].{30,}\.$/);
        assert.ok("terraform" in versions, "no required_version");
        // An example is what was tried; a module takes what it works with.
        for (const [source, version] of Object.entries(versions))
          if (source !== "terraform")
            assert.match(version, kind === "example" ? /^[0-9.]+$/ : /^>= [0-9.]+, < [0-9.]+$/, source);
      });

      it("has a type and a description for every variable, and a rule where one can be broken", () => {
        for (const { name: variable, type, description, rules } of itself().variables) {
          assert.ok(type !== null && type !== "any", `${variable} has no type`);
          assert.match(description, SENTENCES, `${variable} is not described`);
          // An example hands on what its modules judge.
          const isJudged = kind === "example" || type === "bool";
          assert.ok(isJudged || rules.length > 0, `${variable} takes any ${type}`);
          for (const rule of rules) assert.match(rule, SENTENCES, variable);
        }
      });

      it("has a description for every output", () => {
        assert.ok(itself().outputs.length > 0);
        for (const output of itself().outputs)
          assert.match(output.description, SENTENCES, `${output.name} is not described`);
      });

      it("defends every wildcard of its policies", () => {
        assert.deepEqual(
          [...itself().files].flatMap(([file, text]) => undefendedStars(file, text)),
          [],
        );
      });

      if (kind === "module")
        it("reads no file outside its own folder", () => {
          for (const [file, text] of itself().files)
            assert.doesNotMatch(text, /path\.\w+\}?\/\.\.|root\}/, file);
        });

      if (kind === "example")
        it("tags everything", () => {
          const { providers, variables } = itself();
          assert.ok(providers.length > 1);
          for (const { alias, default_tags: tags } of providers)
            assert.deepEqual(tags, [{ tags: "${local.tags}" }], String(alias));
          assert.ok(variables.some((variable) => variable.name === "tags"));
        });
    });
});

describe("the search for wildcards", () => {
  const found = (text: string): number => undefendedStars("x.tf", text).length;

  it("finds them in every shape of a policy", () => {
    assert.equal(found('  actions = ["kms:*"]'), 1);
    assert.equal(found('  not_actions = ["kms:*"]'), 1);
    assert.equal(found('  resources = [\n    "a",\n    "${aws_x.y.arn}/*",\n  ]'), 1);
    assert.equal(found('  Action = "*"\n  Resource = "*"'), 2);
    assert.equal(found('  "Resource": "*"'), 1);
    assert.equal(found('  principals {\n    identifiers = ["*"]\n  }'), 1);
  });

  it("takes a comment in the line above, and only there", () => {
    assert.equal(found('  # Of this group.\n  resources = ["a:*"]'), 0);
    assert.equal(found('  resources = [\n    # Of this group.\n    "a:*",\n  ]'), 0);
    assert.equal(found('  # Far away.\n\n  resources = ["a:*"]'), 1);
    assert.equal(found('  actions = ["a"]\n  resources = ["a:*"] # Behind.'), 1);
  });

  it("ignores an asterisk that is not a policy's wildcard", () => {
    assert.equal(found('  values = ["arn:aws:logs:*"]'), 0);
    assert.equal(found('  actions = ["a:B"]\n  size = 2 * 3'), 0);
    assert.equal(found('  description = "two * three"'), 0);
  });
});
