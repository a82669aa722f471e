// The format of a history, for programs that record one. To judge a history, run `src/cli.ts`.
export * from "./history.ts";
