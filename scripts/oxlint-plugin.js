// Lint rules of our own, as selectors of ESLint. Plain JavaScript: any Node that runs Oxlint loads it.

const forbid = (selector, message) => ({
  create: (context) => ({ [selector]: (node) => context.report({ node, message }) }),
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
  },
};
