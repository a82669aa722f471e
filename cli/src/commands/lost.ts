// The rows of the table that call trackers about lost transactions.
import { type Command } from "../command.ts";
import { type Option } from "../given.ts";
import type * as calls from "../lost.ts";
import { JSON_OUTPUT } from "./options.ts";

const EXITS = { 0: "done", 1: "the tracker refused, or does not answer", 2: "wrong arguments" };
const TRACKER: Option = {
  name: "tracker",
  value: "URL",
  does: "a tracker (default: the first of HIGHWATER_TRACKERS, or HIGHWATER_URL)",
};
const FILTERS: readonly Option[] = [
  { name: "since", value: "TIME", does: "only losses that were published then or later" },
  { name: "contents", value: "STATE", does: "only those: kept, not_kept, over_limit or erased" },
  { name: "answered", value: "HOW", does: "only those: yes, no or unknown" },
  { name: "limit", value: "N", does: "at most so many in one call (default: 100)" },
  { name: "after", value: "CURSOR", does: "continue the list of an earlier call" },
];

function lost(
  name: string,
  does: string,
  call: keyof typeof calls,
  more: Pick<Command, "args" | "notes"> & {
    readonly options: readonly Option[];
    readonly exits?: Command["exits"];
  },
): Command {
  const { options, exits = {}, ...rest } = more;
  return {
    name: `lost ${name}`,
    does,
    ...rest,
    page: "guide/after-a-loss.md",
    exits: { ...EXITS, ...exits },
    run: { kind: "own", load: async () => ({ run: (await import("../lost.ts"))[call] }), options },
  };
}

export const LOST: readonly Command[] = [
  lost("list", "list the lost transactions of the key's owner", "list", {
    options: [...FILTERS, TRACKER, JSON_OUTPUT],
    notes: [
      "Needs a key with the scope read in HIGHWATER_API_KEY (or @FILE), if trackers require one. Each tracker lists the losses that it has published itself.",
    ],
  }),
  lost("show", "show a lost transaction with its contents", "show", {
    args: "ID",
    options: [TRACKER, JSON_OUTPUT],
    exits: { 3: "this tracker does not have the contents" },
    notes: ["Needs a key of the owner with the scope contents:read. The audit log records each reading."],
  }),
  lost("export", "print lost transactions with their contents, one line of JSON for each", "exported", {
    options: [...FILTERS, TRACKER],
    notes: ["Needs a key of the owner with the scopes read and contents:read."],
  }),
  {
    name: "lost extract",
    args: "FOLDER",
    does: "print what a copy of the old primary's data folder shows of the lost transactions, one line of JSON for each",
    page: "guide/after-a-loss.md",
    exits: { 0: "done", 1: "the copy does not open, or has no log there", 2: "wrong arguments" },
    notes: [
      "Opens the copy as a standby that follows nothing and that only its own user can reach. As root it runs the server as the owner of the folder. Reads every table once.",
    ],
    run: {
      kind: "own",
      load: () => import("../old-disk/extract.ts"),
      options: [
        { name: "is-copy", does: "you declare that FOLDER is a copy; it will be written to" },
        { name: "fork", value: "LSN", does: "the fork_offset of the epoch after the loss" },
        { name: "bin", value: "DIR", does: "postgres and pg_waldump of the copy's major version" },
        { name: "user", value: "NAME", does: "a superuser of the copy (default: postgres)" },
        { name: "sql", does: "print SQL, which rolls each transaction back until you change that" },
      ],
    },
  },
  lost("replay", "bring lost transactions back; without --apply, say what would come of it", "replay", {
    args: "[ID...]",
    options: [
      { name: "all", does: "all lost transactions of the key's owner" },
      { name: "apply", does: "commit what can be brought back, instead of a dry run" },
      {
        name: "independent",
        value: "HOW",
        does: "rows: you declare that only transactions that wrote a common row depend on each other; all: also of those whose rows are not known (default: none)",
      },
      { name: "url", value: "URL", does: "a gateway, best one near the primary (default: HIGHWATER_URL)" },
      JSON_OUTPUT,
    ],
    exits: { 1: "the gateway refused, or does not answer", 3: "some are conflicts or unrecoverable" },
    notes: [
      "Needs a key of the owner with the scope contents:replay. A transaction takes effect once, however often it is brought back.",
    ],
  }),
  lost("erase", "erase the contents of an owner at all trackers", "erase", {
    options: [
      { name: "owner", value: "NAME", does: "the owner, as `highwater keys list` names it" },
      { name: "owner-tag", value: "TAG", does: "the owner's tag instead; 0 without authentication" },
      TRACKER,
      JSON_OUTPUT,
    ],
    notes: ["Needs a key with the scope admin. Cannot be undone."],
  }),
];
