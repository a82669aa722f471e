// Preloaded into the programs of a task: gives it, among many on one machine, what a task of its own has. Its own address stands
// for 0.0.0.0 where it listens and for 127.0.0.1 where it connects; a name leads where the private zones lead it from its
// region, and one that they do not know nowhere.
import net from "node:net";

export const NETWORK_VARIABLE = "STAND_IN_NETWORK";

export interface OwnNetwork {
  readonly address: string;
  /** By `NAME:PORT`, the address and port that stand for it. */
  readonly routes: Readonly<Record<string, readonly [address: string, port: number]>>;
}

type Listener = () => void;
interface Target {
  readonly host?: string;
  readonly port?: number | string;
  readonly path?: string | null;
}

const given = process.env[NETWORK_VARIABLE];
if (given !== undefined) install(JSON.parse(given) as OwnNetwork);

function install(own: OwnNetwork): void {
  const prototype = net.Socket.prototype as {
    connect(this: net.Socket, ...args: readonly unknown[]): net.Socket;
  };
  // oxlint-disable-next-line typescript/unbound-method -- it is called with the socket as `this`
  const { connect } = prototype;
  prototype.connect = function (...args) {
    const [target, listener] = targetOf(args);
    if (target.path != null) return connect.call(this, ...args);
    const { host = "127.0.0.1", port } = target;
    const name = `${host}:${String(port)}`;
    const route = host === "127.0.0.1" ? ([own.address, Number(port)] as const) : own.routes[name];
    if (route === undefined) {
      const cause = Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: "ENOTFOUND" });
      process.nextTick(() => this.destroy(cause));
      return this;
    }
    const options = { ...target, host: route[0], port: route[1] };
    return listener === undefined ? connect.call(this, options) : connect.call(this, options, listener);
  };

  const server = net.Server.prototype as {
    listen(this: net.Server, ...args: readonly unknown[]): net.Server;
  };
  // oxlint-disable-next-line typescript/unbound-method -- it is called with the server as `this`
  const { listen } = server;
  server.listen = function (...args) {
    const [target, ...rest] = args;
    if (!isObject(target) || (target as Target).host !== "0.0.0.0")
      throw new Error("a task that does not listen at 0.0.0.0 can be reached by nobody");
    return listen.call(this, { ...target, host: own.address }, ...rest);
  };
}

/** Of the forms of `connect`: (options, listener), (port, host, listener), (path), and what `net.connect` makes of them. */
function targetOf(args: readonly unknown[]): readonly [Target, Listener | undefined] {
  const [first, second, third] = (Array.isArray(args[0]) ? args[0] : args) as readonly unknown[];
  const listener = [second, third].find((arg) => typeof arg === "function") as Listener | undefined;
  if (isObject(first)) return [first, listener];
  if (typeof first === "string" && !/^[0-9]+$/.test(first)) return [{ path: first }, listener];
  return [{ port: first as number, ...(typeof second === "string" && { host: second }) }, listener];
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
