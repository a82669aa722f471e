// The loopback HTTP through which a test in any language breaks the system: POST /NAME with a JSON
// object. One at a time.
import { type IncomingMessage, type ServerResponse } from "node:http";
import { type ServiceName, type Site } from "./site.ts";

type Body = Readonly<Record<string, unknown>>;

/** What can be done, and the fields that it takes. */
const COMMANDS: Readonly<
  Record<string, { takes: readonly string[]; run: (site: Site, body: Body) => unknown }>
> = {
  query: {
    takes: ["sql", "node"],
    run: (site, body) => site.query(text(body, "sql") ?? "", text(body, "node")),
  },
  hold: {
    takes: ["regions"],
    run: (site, body) => site.hold(texts(body, "regions")?.map((name) => site.region(name))),
  },
  heal: { takes: [], run: (site) => site.heal() },
  crash: {
    takes: ["region"],
    run: (site, body) => site.crash(site.region(text(body, "region") ?? "primary")),
  },
  failover: {
    takes: ["to", "alone"],
    run: (site, body) => {
      const to = text(body, "to");
      return site.failover({
        ...(to !== undefined && { to: site.region(to) }),
        alone: body["alone"] === true,
      });
    },
  },
  restart: { takes: [], run: (site) => site.restart() },
  stop: { takes: ["region", "service"], run: (site, body) => site.stopService(...service(site, body)) },
  start: { takes: ["region", "service"], run: (site, body) => site.startService(...service(site, body)) },
  pause: { takes: ["region", "service"], run: (site, body) => site.pauseService(...service(site, body)) },
  continue: {
    takes: ["region", "service"],
    run: (site, body) => site.continueService(...service(site, body)),
  },
  cut: {
    takes: ["region", "service", "mode"],
    run: (site, body) =>
      site.cutClients(...service(site, body), body["mode"] === "blackhole" ? "blackhole" : "reset"),
  },
  uncut: { takes: ["region", "service"], run: (site, body) => site.healClients(...service(site, body)) },
  mend: { takes: [], run: (site) => site.mend() },
};

function text(body: Body, name: string): string | undefined {
  const value = body[name];
  if (value === undefined || typeof value === "string") return value;
  throw new Error(`${name} is a string`);
}

function texts(body: Body, name: string): string[] | undefined {
  const value = body[name];
  if (value === undefined) return undefined;
  if (Array.isArray(value) && value.every((each): each is string => typeof each === "string")) return value;
  throw new Error(`${name} is a list of strings`);
}

/** The primary's region unless another is named. */
function service(site: Site, body: Body): [region: string, service: ServiceName] {
  const which = body["service"];
  if (which !== "gateway" && which !== "tracker") throw new Error("service is gateway or tracker");
  return [site.region(text(body, "region") ?? "primary"), which];
}

async function command(site: Site, name: string, body: Body): Promise<unknown> {
  const found = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (found === undefined)
    throw new Error(`there is no command ${name}, only ${Object.keys(COMMANDS).join(", ")}`);
  const stranger = Object.keys(body).find((key) => !found.takes.includes(key));
  if (stranger !== undefined) throw new Error(`${name} takes no ${stranger}`);
  return found.run(site, body);
}

/**
 * Answers `GET /` with the description as it is now; commands with what they return, or `{error}`
 * and status 400.
 */
export function controlOf(site: Site): (request: IncomingMessage, response: ServerResponse) => void {
  let before: Promise<unknown> = Promise.resolve();
  const answer = async (request: IncomingMessage): Promise<unknown> => {
    let sent = "";
    for await (const chunk of request.setEncoding("utf8")) sent += String(chunk);
    if (request.method === "GET") return site.describe();
    const body = sent === "" ? {} : (JSON.parse(sent) as Body);
    const done = before.then(() => command(site, (request.url ?? "/").slice(1), body));
    before = done.catch(() => undefined);
    return (await done) ?? (await site.describe());
  };
  return (request, response) => {
    const say = (status: number, body: unknown): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    answer(request).then(
      (body) => {
        say(200, body);
      },
      (cause: unknown) => {
        say(400, { error: cause instanceof Error ? cause.message : String(cause) });
      },
    );
  };
}
