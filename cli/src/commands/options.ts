// Options that several commands have.
import { type Option } from "../given.ts";

export const JSON_OUTPUT: Option = { name: "json", does: "print JSON" };
export const TRACKERS_TO_ASK: Option = {
  name: "tracker",
  value: "URL",
  isMany: true,
  does: "a tracker to ask; adds to HIGHWATER_TRACKERS",
};
export const BY: Option = {
  name: "by",
  value: "NAME",
  does: "the person, for the audit log (default: the user and host that run it)",
};
export const REASON: Option = { name: "reason", value: "TEXT", does: "the reason, for the audit log" };
