// What others may use of the checker: the format of a history. Its judgement is asked for by
// running `src/cli.ts`.
export * from "./history.ts";
