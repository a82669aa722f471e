// Signing in: whether the tracker asks for a key, and what the key may do. The tracker has no call
// that lists a key's scopes, so the console asks for something of each scope.
import { type Api, ApiError, messageOf } from "./api.ts";

const SCOPES = ["read", "admin", "webhooks", "contents:read", "contents:replay"] as const;
export type ConsoleScope = (typeof SCOPES)[number];

export type Access =
  | { readonly kind: "checking" }
  /** `refusal`: why the last key was not accepted. */
  | { readonly kind: "asked"; readonly refusal: string }
  | { readonly kind: "unavailable"; readonly reason: string }
  | { readonly kind: "open"; readonly scopes: ReadonlySet<ConsoleScope>; readonly hasKey: boolean };

type Caller = Pick<Api, "get" | "send">;

/** Asks without a key first: a tracker that runs without authentication needs none. */
export async function enter(api: Caller, hasKey: boolean): Promise<Access> {
  try {
    const may = await Promise.all([
      isAllowed(() => api.get("/v1/durability/marks")),
      isAllowed(() => api.send("POST", "/v1/durability/failover-preview", {})),
      isAllowed(() => api.get("/v1/webhooks")),
      // Not an id, so it reads nothing.
      isAllowed(() => api.get("/v1/lost/none")),
      // Asks for none, which is refused.
      isAllowed(() => api.send("POST", "/v1/lost/replay", { ids: [] })),
    ]);
    const scopes = SCOPES.filter((_, at) => may[at]);
    // Contents alone have no view.
    if (!may.slice(0, 3).includes(true))
      return { kind: "asked", refusal: "This key has none of the scopes read, admin and webhooks." };
    return { kind: "open", scopes: new Set(scopes), hasKey };
  } catch (cause) {
    if (cause instanceof ApiError && cause.status === 401)
      return { kind: "asked", refusal: hasKey ? cause.message : "" };
    return { kind: "unavailable", reason: messageOf(cause) };
  }
}

/**
 * A tracker checks the scope before it looks at the request, so any other refusal shows that the
 * scope is there.
 */
async function isAllowed(call: () => Promise<unknown>): Promise<boolean> {
  try {
    await call();
    return true;
  } catch (cause) {
    if (!(cause instanceof ApiError) || cause.status === 0 || cause.status === 401) throw cause;
    if (cause.code === "rate_limited") throw cause;
    return cause.status !== 403;
  }
}
