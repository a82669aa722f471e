// Lint rules of our own, as selectors of ESLint. Plain JavaScript: any Node that runs Oxlint loads it.

const forbid = (selector, message) => ({
  create: (context) => ({ [selector]: (node) => context.report({ node, message }) }),
});

// Words for how one engine works inside. As parts of a name, they begin after a capital or an underscore.
const ENGINE_WORDS = /(?<![a-z])(?:lsn|wal|xlog|hlc|unlogged)s?(?![a-z])|(?<![a-z_])pg_|crdb|cockroach/gi;
const ENGINE_NAMES = /postgre_?s/gi;

const forbidWords = (words, message) => ({
  create: (context) => ({
    Program: () => {
      // Names, texts and comments alike. A name is taken apart at its capitals.
      for (const [n, line] of context.sourceCode.text.split("\n").entries()) {
        const split = line.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_");
        for (const [word] of split.matchAll(words))
          context.report({
            loc: { start: { line: n + 1, column: 0 }, end: { line: n + 1, column: line.length } },
            message: `"${word}": ${message}`,
          });
      }
    },
  }),
});

export default {
  meta: { name: "highwater" },
  rules: {
    // The pathname of a file's URL is percent-encoded: it names no file where the path has a space or a letter outside ASCII.
    "no-encoded-path": forbid(
      ":matches(MemberExpression[property.name='pathname'], VariableDeclarator[id.type='ObjectPattern']) > NewExpression[callee.name='URL']:has(MetaProperty)",
      "Use fileURLToPath, import.meta.dirname or import.meta.filename.",
    ),
    // It groups properties only to have the formatter write them in one line.
    "no-spread-of-literal": forbid(
      "ObjectExpression > SpreadElement > ObjectExpression",
      "Write the properties without the spread.",
    ),
    // More than one engine stands behind the store's port.
    "no-engine-words": forbidWords(ENGINE_WORDS, "only an adapter of the store says how its engine works."),
    "no-engine-names": forbidWords(ENGINE_NAMES, "these rules hold for every store."),
  },
};
