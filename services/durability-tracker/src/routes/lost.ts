// What was lost, and its contents: schema, call, map; no rules.
import { type FastifyInstance } from "fastify";
import {
  Answered,
  CONTENTS_LIMITS,
  ContentsState,
  type ErasedContents,
  HighwaterError,
  LostCursor,
  type LostDetails,
  type LostList,
  OwnerText,
  parseTxnId,
  type TSchema,
  validate,
} from "@highwater/protocol";
import { callerOf, mayReadOf, type Principal, requireScope } from "@highwater/service";
import { type Contents } from "../contents/contents.ts";

type Query = Readonly<Record<string, unknown>>;
interface WithQuery {
  Querystring: Record<string, unknown>;
}

/** To be registered in a scope that knows its callers. */
export function lostRoutes(
  scope: FastifyInstance,
  { contents }: { readonly contents: Pick<Contents, "list" | "read" | "erase"> },
): void {
  scope.get<WithQuery>("/v1/lost", async (request, reply): Promise<LostList> => {
    const { principal } = callerOf(request);
    const faults: string[] = [];
    const { owner, after, limit, since, contents: state, answered, ...unknown } = request.query;
    faults.push(...Object.keys(unknown).map((name) => `?${name}: is not a known parameter`));
    const question = {
      owner: isGood(OwnerText, owner, "owner", faults) ? owner : null,
      after: isGood(LostCursor, after, "after", faults) ? Number(after) : 0,
      limit: readLimit(limit, faults),
      sinceMs: readSince(since, faults),
      id: null,
      contents: isGood(ContentsState, state, "contents", faults) ? (state as ContentsState) : null,
      answered: isGood(Answered, answered, "answered", faults) ? (answered as Answered) : null,
    };
    if (faults.length > 0)
      throw new HighwaterError("invalid_request", { detail: faults.join("; "), fields: faults });
    requireScope(principal, mayList(principal, question.owner) ? "read" : "admin");
    void reply.header("cache-control", "no-store");
    const isEvery = principal.isEveryOwner === true || question.owner !== null;
    return contents.list({ ...question, owner: isEvery ? question.owner : String(principal.owner) });
  });

  scope.get<{ Params: { id: string } }>("/v1/lost/:id", async (request, reply): Promise<LostDetails> => {
    const { principal } = callerOf(request);
    // Contents belong to their owner: no scope opens another owner's.
    requireScope(principal, "contents:read");
    const id = parseTxnId(request.params.id);
    if (id === undefined)
      throw new HighwaterError("invalid_id", { detail: "The id must be a UUID of version 7." });
    void reply.header("cache-control", "no-store");
    return contents.read({ id, owner: principal.owner }, principal);
  });

  scope.delete<WithQuery>("/v1/lost/contents", async (request): Promise<ErasedContents> => {
    const { principal } = callerOf(request);
    const owner = readOwner(request.query);
    requireScope(principal, "admin");
    return contents.erase(owner, { by: principal.id, reason: null });
  });
}

/** Without `admin`: their own. */
function mayList(principal: Principal, owner: string | null): boolean {
  return owner === null || mayReadOf(principal, BigInt(owner));
}

function readOwner({ owner, ...unknown }: Query): bigint {
  const faults = Object.keys(unknown).map((name) => `?${name}: is not a known parameter`);
  const isGiven = isGood(OwnerText, owner, "owner", faults);
  if (!isGiven && faults.length === 0) faults.push("?owner: is required");
  if (faults.length > 0 || !isGiven)
    throw new HighwaterError("invalid_request", { detail: faults.join("; "), fields: faults });
  return BigInt(owner);
}

function isGood(schema: TSchema, value: unknown, name: string, faults: string[]): value is string {
  if (value === undefined) return false;
  const found = validate(schema, value);
  if (found.ok) return true;
  faults.push(`?${name}: ${found.faults.join("; ")}`);
  return false;
}

function readLimit(value: unknown, faults: string[]): number {
  const { lostPerPage, defaultLostPerPage } = CONTENTS_LIMITS;
  if (value === undefined) return defaultLostPerPage;
  const limit = typeof value === "string" && /^[0-9]{1,6}$/.test(value) ? Number(value) : 0;
  if (limit >= 1 && limit <= lostPerPage) return limit;
  faults.push(`?limit: must be a whole number from 1 to ${String(lostPerPage)}`);
  return 0;
}

function readSince(value: unknown, faults: string[]): number {
  if (value === undefined) return 0;
  const ms = typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value) ? Date.parse(value) : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  faults.push("?since: must be a time, such as 2030-01-31T12:00:00Z");
  return 0;
}
