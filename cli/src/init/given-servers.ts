// Reads the connection strings of the command line.
import { NAME_PATTERN } from "@highwater/protocol";
import { COCKROACH_REFUSAL } from "@highwater/store";
import { badInput } from "../refusal.ts";
import { addressOf } from "../postgres.ts";

export interface GivenServer {
  /** The name before the equals sign, if there is one. */
  readonly name: string | null;
  readonly url: string;
  /** Host and port, for messages: the string may have a password. */
  readonly address: string;
}

/** Of nodes and regions. */
export const NAME = new RegExp(NAME_PATTERN);

/** Errors: Refusal with every fault. */
export function readServers(args: readonly string[]): GivenServer[] {
  if (args.length === 0)
    throw badInput(
      "name the connection string of each server, such as postgresql://postgres@db1.example.com:5432/app",
    );
  const faults: string[] = [];
  const servers = args.flatMap((text, at) => {
    const [, name = null, url = ""] = /^(?:([^=:/?]*)=)?(.*)$/s.exec(text) ?? [];
    const which = `argument ${String(at + 1)}`;
    if (!/^postgres(?:ql)?:\/\//i.test(url) || !URL.canParse(url)) {
      faults.push(
        /^cockroach/i.test(url)
          ? `${which}: ${COCKROACH_REFUSAL}`
          : `${which} is not a URL of the form postgresql://USER@HOST:PORT/DATABASE: the topology has such URLs alone`,
      );
      return [];
    }
    if (name !== null && !NAME.test(name))
      faults.push(
        `${which}: a node's name has small letters, digits, "-" and "_" alone, and ${name} has not`,
      );
    return [{ name, url, address: addressOf(url) }];
  });
  if (faults.length > 0) throw badInput(...faults);
  return servers;
}
