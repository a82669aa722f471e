// `GET /errors` and `GET /errors/:code` explain each error. The responses come from the catalogue
// alone, so they need no credential, no database and no ready service.
import { type FastifyInstance } from "fastify";
import { classOf, describeError, type ErrorCode, ERRORS, HighwaterError } from "@highwater/protocol";

const CODES = Object.keys(ERRORS) as ErrorCode[];
const LIST = { errors: CODES.map(classOf) };
const DESCRIPTIONS = new Map<string, unknown>(CODES.map((code) => [code, describeError(code)]));

export function installErrorReference(app: FastifyInstance): void {
  app.get("/errors", () => LIST);
  app.get<{ Params: { code: string } }>("/errors/:code", ({ params }) => {
    const description = DESCRIPTIONS.get(params.code);
    if (description !== undefined) return description;
    const detail = `There is no error code ${JSON.stringify(params.code)}; GET /errors lists them all.`;
    throw new HighwaterError("not_found", { detail });
  });
}
