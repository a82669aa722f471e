// What many programs never use, in one part that is loaded when it is needed: transactions of several steps, and marks without a
// stream. The rest of the package imports it by `import()` only.
export { InteractiveTransaction } from "./interactive.ts";
export { poll } from "./polling.ts";
export { transact } from "./transact.ts";
