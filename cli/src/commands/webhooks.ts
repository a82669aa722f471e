// The rows of the table that call trackers about webhooks.
import { type Command } from "../command.ts";
import { type Option } from "../given.ts";
import type * as calls from "../webhooks.ts";
import { JSON_OUTPUT } from "./options.ts";

const WEBHOOK_EXITS = { 0: "done", 1: "the tracker refused, or does not answer", 2: "wrong arguments" };
const WEBHOOK_OPTIONS: readonly Option[] = [
  {
    name: "tracker",
    value: "URL",
    does: "a tracker (default: the first of HIGHWATER_TRACKERS, or HIGHWATER_URL)",
  },
  JSON_OUTPUT,
];

/**
 * HIGHWATER_API_KEY has a key with the scope webhooks, and the commands see its owner's endpoints.
 */
function webhooks(
  name: string,
  does: string,
  call: keyof typeof calls,
  more: {
    readonly args?: string;
    readonly options?: readonly Option[];
    readonly exits?: Command["exits"];
    readonly notes?: readonly string[];
  } = {},
): Command {
  const { options = [], exits = {}, ...rest } = more;
  return {
    name: `webhooks ${name}`,
    does,
    ...rest,
    page: "reference/webhooks.md",
    exits: { ...WEBHOOK_EXITS, ...exits },
    run: {
      kind: "own",
      load: async () => ({ run: (await import("../webhooks.ts"))[call] }),
      options: [...options, ...WEBHOOK_OPTIONS],
    },
  };
}

export const WEBHOOKS: readonly Command[] = [
  webhooks("list", "list the endpoints of the key's owner", "list", {
    notes: [
      "All commands of webhooks need a key with the scope webhooks in HIGHWATER_API_KEY (or @FILE), if trackers require one, and see the endpoints of its owner.",
    ],
  }),
  webhooks("create", "create an endpoint, and print its id and secret", "create", {
    args: "URL",
    options: [
      { name: "event", value: "TYPE,…", isMany: true, does: "send events of these types" },
      {
        name: "filter",
        value: "NAME=VALUE",
        isMany: true,
        does: "only events of transactions with this metadata",
      },
      { name: "description", value: "TEXT", does: "what it is for" },
    ],
  }),
  webhooks("enable", "enable an endpoint again", "enable", { args: "ENDPOINT" }),
  webhooks("disable", "disable an endpoint; its deliveries are held", "disable", { args: "ENDPOINT" }),
  webhooks("delete", "delete an endpoint with all its deliveries", "remove", { args: "ENDPOINT" }),
  webhooks("secret", "print the secret of an endpoint", "secret", {
    args: "ENDPOINT",
    options: [
      { name: "rotate", does: "replace it first" },
      { name: "overlap", value: "SECONDS", does: "how long the replaced one also signs (default: a day)" },
    ],
  }),
  webhooks("test", "send a test message, and show what became of it", "test", {
    args: "ENDPOINT",
    options: [{ name: "wait", value: "SECONDS", does: "wait this long for the attempt (default: 20)" }],
    exits: { 3: "the endpoint did not accept it", 4: "not known yet" },
  }),
  webhooks("deliveries", "list the deliveries of an endpoint, newest first", "deliveries", {
    args: "ENDPOINT",
    options: [
      { name: "status", value: "STATUS", does: "only those: pending, delivered, failed or held" },
      { name: "limit", value: "N", does: "at most so many (default: 100)" },
      { name: "before", value: "CURSOR", does: "continue the list of an earlier call" },
    ],
  }),
  webhooks("delivery", "show a delivery with its attempts and its body", "delivery", {
    args: "ENDPOINT DELIVERY",
  }),
  webhooks("redeliver", "send a delivery again", "redeliver", { args: "ENDPOINT DELIVERY" }),
  webhooks("recover", "send everything again that has failed or is held", "recover", {
    args: "ENDPOINT",
    options: [{ name: "since", value: "TIME", does: "from this time on, or a duration such as 2h" }],
  }),
];
