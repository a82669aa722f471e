// Names to addresses as this machine resolves them, its hosts file included: what is checked is what would be connected to.
import { lookup } from "node:dns/promises";
import { type HostAddress, type Resolve } from "./address.ts";

export const resolveName: Resolve = async (hostname) => {
  const found = await lookup(hostname, { all: true, order: "verbatim" });
  return found.map(({ address, family }): HostAddress => ({ address, family: family === 6 ? 6 : 4 }));
};
