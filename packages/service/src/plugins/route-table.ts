// Lists all paths with their methods, for 404, 405 and the documentation.
import { type FastifyInstance } from "fastify";
import { HighwaterError } from "@highwater/protocol";

export interface Route {
  readonly method: string;
  /** With `:name` for each parameter. */
  readonly path: string;
}

interface Path {
  readonly path: string;
  readonly segments: readonly string[];
  readonly methods: Set<string>;
}

/** The CORS plugin's route for preflights, which is not a path of the service. */
const ANY_PATH = "*";

const tables = new WeakMap<FastifyInstance, ReadonlyMap<string, Path>>();

/** The beginnings of the paths that another service has, by what serves them. */
export type Elsewhere = Readonly<Record<string, readonly string[]>>;

/**
 * Install it before the routes: 404 for an unknown path, which says what there is; 405 for a method
 * that the path lacks.
 */
export function installRouteTable(app: FastifyInstance, elsewhere: Elsewhere = {}): void {
  const paths = new Map<string, Path>();
  tables.set(app, paths);
  app.addHook("onRoute", ({ method, url }) => {
    if (url === ANY_PATH) return;
    const known = paths.get(url) ?? { path: url, segments: url.split("/"), methods: new Set<string>() };
    paths.set(url, known);
    for (const one of [method].flat()) known.methods.add(one);
  });
  // Before any other check of the request: neither its caller nor its body matters here.
  app.addHook("onRequest", (request, reply, done) => {
    const { routeOptions, method } = request;
    const is404 = request.is404 || routeOptions.url === ANY_PATH;
    if (!is404 && routeOptions.url?.includes(":") !== true) {
      done();
      return;
    }
    const [asked = ""] = request.url.split("?", 1);
    const literal = paths.get(asked);
    const methods = literal?.methods ?? methodsAt(asked.split("/"), [...paths.values()]);
    // A literal path is never an id, whatever the method; nor is nothing at all.
    if (!is404 && methods.size > 0 && (literal === undefined || methods.has(method))) done();
    else if (methods.size === 0)
      done(new HighwaterError("not_found", { detail: whatThereIs(asked, paths.keys(), elsewhere) }));
    else {
      void reply.header("allow", [...methods].sort().join(", "));
      done(new HighwaterError("method_not_allowed"));
    }
  });
}

function whatThereIs(asked: string, paths: Iterable<string>, elsewhere: Elsewhere): string {
  for (const [service, beginnings] of Object.entries(elsewhere)) {
    const beginning = beginnings.find((each) => asked.startsWith(each));
    if (beginning !== undefined) return `There is no such path here: ${service} serves ${beginning}.`;
  }
  const own = [...paths].filter((path) => !path.startsWith("/internal/"));
  return `There is no such path here. There are ${own.map(asInOpenApi).join(", ")}.`;
}

const asInOpenApi = (path: string): string => path.replaceAll(/:(\w+)/g, "{$1}");

/** Every route of the application. With GET there is HEAD, too. */
export function routesOf(app: FastifyInstance): Route[] {
  return [...(tables.get(app)?.values() ?? [])].flatMap(({ path, methods }) =>
    [...methods].map((method) => ({ method, path })),
  );
}

function methodsAt(asked: readonly string[], paths: readonly Path[]): ReadonlySet<string> {
  return new Set(paths.filter((path) => fits(path, asked)).flatMap(({ methods }) => [...methods]));
}

function fits({ segments }: Path, asked: readonly string[]): boolean {
  return (
    segments.length === asked.length &&
    segments.every((segment, at) => (segment.startsWith(":") ? asked[at] !== "" : segment === asked[at]))
  );
}
