// Lint rules that carry the architecture: who may import whom, and where time, chance and the environment enter.
import tseslint from "typescript-eslint";

/** Time, chance and the environment come in through `deps`; only the files named below may touch the real ones. */
const ambient = [
  { object: "Date", property: "now", message: "Pass a clock in deps (see runtime.ts)." },
  { object: "performance", property: "now", message: "Pass a clock in deps (see runtime.ts)." },
  { object: "Math", property: "random", message: "Pass an rng in deps (see runtime.ts)." },
  { object: "process", property: "env", message: "Read the environment in main.ts and pass a Config." },
];

/** The pathname of a file's URL is percent-encoded: it names no file where the path has a space or a letter outside ASCII. */
const encodedPath = {
  selector:
    ":matches(MemberExpression[property.name='pathname'], VariableDeclarator[id.type='ObjectPattern']) > NewExpression[callee.name='URL']:has(MetaProperty)",
  message: "Use fileURLToPath, import.meta.dirname or import.meta.filename.",
};

/** It groups properties only to make Prettier write them in one line. */
const spreadOfLiteral = {
  selector: "ObjectExpression > SpreadElement > ObjectExpression",
  message: "Write the properties without the spread.",
};

const forbidImports = (patterns) => ["error", { patterns }];
const notOurs = { regex: "^@highwater/", message: "This package must not import our other packages." };

export default tseslint.config(
  {
    ignores: [
      "**/node_modules/**",
      "**/dist/**",
      "**/*.js",
      "**/*.mjs",
      "**/*.cjs",
      "**/.tmp-*",
      "**/.tmp-*/**",
    ],
  },
  // Its packages are there only where pictures are drawn; make dashboards-pictures checks its types.
  { ignores: ["dashboards/pictures/page/**"] },
  ...tseslint.configs.recommendedTypeChecked,
  {
    files: ["**/*.ts"],
    languageOptions: { parserOptions: { project: ["tsconfig.json"], tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/no-floating-promises": [
        "error",
        {
          allowForKnownSafeCalls: [
            { from: "package", name: ["describe", "it", "test", "suite"], package: "node:test" },
          ],
        },
      ],
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/switch-exhaustiveness-check": [
        "error",
        { considerDefaultExhaustiveForUnions: true },
      ],
      "@typescript-eslint/consistent-type-imports": ["error", { fixStyle: "inline-type-imports" }],
      "@typescript-eslint/require-await": "off",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "no-warning-comments": ["error", { terms: ["fixme"] }],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-restricted-properties": ["error", ...ambient],
      "no-restricted-syntax": ["error", encodedPath, spreadOfLiteral],
      "max-lines": ["error", { max: 600, skipBlankLines: true, skipComments: true }],
      "max-lines-per-function": ["warn", { max: 70, skipBlankLines: true, skipComments: true }],
    },
  },
  {
    // Where the real clock, rng and environment enter a process, and everything that is not product code.
    files: [
      "**/runtime.ts",
      "**/main.ts",
      "**/cli.ts",
      "lab/**",
      "proof/attack/**",
      "proof/chaos/**",
      "proof/clients/**",
      "proof/fuzz/**",
      "proof/wire/**",
      "proof/soak/**",
      "examples/**",
      "infra/image/**",
      "loadtests/**",
      "dashboards/**",
      "**/sim/**",
      "scripts/**",
      "sdk/*/**",
      "**/*.test.ts",
      "**/*.prop.test.ts",
      "**/test/**",
      "test/**",
    ],
    rules: { "no-restricted-properties": "off", "max-lines-per-function": "off" },
  },
  {
    files: ["**/*.test.ts", "**/test/**"],
    rules: { "no-restricted-syntax": ["error", encodedPath] },
  },
  {
    // Where modules are processes: an import of nothing but types would run them in the process that imports.
    files: ["lab/**/*.ts", "loadtests/**/*.ts", "proof/soak/**/*.ts"],
    rules: { "@typescript-eslint/no-import-type-side-effects": "error" },
  },
  {
    files: ["packages/protocol/**", "packages/runtime/**"],
    rules: { "no-restricted-imports": forbidImports([notOurs]) },
  },
  {
    files: ["sdk/ts/src/**"],
    rules: {
      "no-restricted-imports": forbidImports([
        notOurs,
        { regex: "^node:", message: "The SDK runs in browsers and edge workers too." },
      ]),
    },
  },
  {
    // Judge and judged have nothing in common.
    files: ["proof/checker/**"],
    rules: {
      "no-restricted-imports": forbidImports([
        { regex: "^(?!\\.\\.?/|node:)", message: "The checker imports nothing but itself." },
      ]),
    },
  },
  {
    files: ["packages/store/**"],
    rules: {
      "no-restricted-imports": forbidImports([
        {
          regex: "^@highwater/(?!authority|protocol|runtime|lab-)",
          message: "The store knows only the rules of authority, the protocol and the runtime.",
        },
      ]),
    },
  },
  {
    files: ["packages/authority/**"],
    rules: {
      "no-restricted-imports": forbidImports([
        {
          regex: "^@highwater/(?!protocol|runtime|lab-)",
          message: "The rules of authority know only the protocol and the runtime.",
        },
      ]),
    },
  },
  {
    // The tracker's core is a pure state machine: no clock, timer, socket, file or database can even be named.
    files: ["services/durability-tracker/src/core/**"],
    ignores: ["**/*.test.ts"],
    rules: {
      "no-restricted-imports": forbidImports([
        {
          regex: "^(?!\\./|@highwater/protocol)",
          message: "The core imports only itself and the protocol's types.",
        },
      ]),
      "no-restricted-globals": [
        "error",
        "setTimeout",
        "setInterval",
        "setImmediate",
        "queueMicrotask",
        "fetch",
        "process",
        "performance",
        "crypto",
        "Date",
        "console",
        "WebSocket",
        "EventSource",
      ],
    },
  },
);
