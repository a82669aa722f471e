// What the driver does not hand on: the token of each transaction. A wrapper of its fetch finds it
// in a header, and lets a caller say with which headers the service is asked.
import { AsyncLocalStorage } from "node:async_hooks";
import { neonConfig } from "@neondatabase/serverless";

export interface Tracked<T> {
  readonly result: T;
  /** One for each transaction of the work, in the order of their answers. */
  readonly tokens: readonly string[];
}

interface Scope {
  readonly headers: Readonly<Record<string, string>>;
  readonly tokens: string[];
}

type DriverRequest = RequestInit & { readonly headers: Readonly<Record<string, string>> };

const scopes = new AsyncLocalStorage<Scope>();

/** Once per process, because the driver has one fetch for all its clients. */
export function trackTransactions(fetchEndpoint: string): void {
  neonConfig.fetchEndpoint = fetchEndpoint;
  neonConfig.fetchFunction = async (url: string, request: DriverRequest): Promise<Response> => {
    const scope = scopes.getStore();
    const response = await fetch(url, { ...request, headers: { ...request.headers, ...scope?.headers } });
    const token = response.headers.get("highwater-token");
    if (token !== null) scope?.tokens.push(token);
    return response;
  };
}

/** Runs the work, whatever calls of the driver it makes, and has their tokens beside its result. */
export async function tracked<T>(
  work: () => Promise<T>,
  headers: Readonly<Record<string, string>> = {},
): Promise<Tracked<T>> {
  const tokens: string[] = [];
  const result = await scopes.run({ headers, tokens }, work);
  return { result, tokens };
}
