// Accepts bodies only as JSON in UTF-8. The service does not decompress, convert or repair a body
// on its way to the database.
import { isUtf8 } from "node:buffer";
import { type FastifyInstance } from "fastify";
import { HighwaterError } from "@highwater/protocol";

export function installJsonBody(app: FastifyInstance): void {
  // No extra check for names like `__proto__`: the schemas refuse unknown fields.
  const parse = app.getDefaultJsonParser("ignore", "ignore");
  // Fastify's own parsers also accept text, and put a replacement character where bytes are not
  // UTF-8.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<Buffer>("application/json", { parseAs: "buffer" }, (request, body, parsed) => {
    if (!isUtf8(body)) parsed(new HighwaterError("invalid_request", { detail: "The body is not UTF-8." }));
    else void parse(request, body.toString("utf8"), parsed);
  });
  app.addHook("onRequest", (request, _reply, done) => {
    const coding = request.headers["content-encoding"];
    if (coding === undefined || coding.toLowerCase() === "identity") done();
    else
      done(
        new HighwaterError("unsupported_media_type", {
          detail: "The body must not be compressed (Content-Encoding).",
        }),
      );
  });
}
